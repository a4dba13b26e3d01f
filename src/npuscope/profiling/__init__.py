"""From a Program, a device or a log to a Profile.

In and out: Programs, devices, logs, reports in; Profiles and validations out.
Run: predictions; measure, collect, passes: devices; replay, recorded: logs; validate.
"""
