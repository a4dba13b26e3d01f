"""Scheduled stages as units, engines, links and buffers.

In and out: stages in epochs in; a Program without places out.
Program: the whole; stages, convolution: one stage each; buffers: what lies between.
"""
