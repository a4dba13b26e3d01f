"""The runtime-loadable image of a network: its layout, what is in one, and where it loads."""
