"""The dialect of .tflite files, in layers of one class on the file graph of
`npuscope.files.tflite`: `steps` (quantization of tensors), `layers` (constants, weights), `ops`
(spelling, channels), `document` (TfliteDocument). `signs` is an edit of this format."""
