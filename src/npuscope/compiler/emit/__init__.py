"""Scheduled stages as units, engines, links and buffers.

In: stages grouped into epochs. Out: a Program without addresses. program: the whole; stages,
convolution: one stage each; buffers: the values between epochs.
"""
