"""What a file or a folder is, by its content, and what is in it: above all formats.

In: any path. Out: an Identity. `table` lists the kinds of files in the order in which they are
tried; one function a kind tells its counts and every number in it; `folder` sees a build as a
whole: which files belong together, what is missing, what contradicts.
"""
