"""The live view: the report as an application in the browser, for files of this computer.

`library` holds the models and what was built of them, `setting` is what one tab asks for,
`answers` are the objects that it gets, and `server` lets nobody else in.
"""
