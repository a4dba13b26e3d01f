"""What a network's answers are worth on the user's data, by each arithmetic that computes them.

In: a folder of pictures or sounds, arrays or a table (`dataset`), with labels (`labels`). Samples
become inputs of a network (`pictures`, `inputs`), run through the float network, the integer
reference and the machine (`run`), and are judged by a task (`tasks`, `maps`, `boxes`). Out: a
TaskAccuracy, with the usual mistakes of preprocessing (`mistakes`) and the layers that cost most
(`layers`).
"""
