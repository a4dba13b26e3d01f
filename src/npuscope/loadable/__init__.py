"""The runtime-loadable image of a network: its layout, what is in one, and where it loads.

In and out: a build folder to an image (build), an image to what is in it (image).
Layout: the words, once; toolchain, link, pack: how it is made; fitting, checklist: will it load.
"""
