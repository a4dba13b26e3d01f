"""The dialect of .onnx files, in layers of one class on the file graph of `npuscope.files.onnx`:
`steps` (quantization in nodes), `layers` (constants, weights), `ops` (spelling, channels),
`border` (inputs and outputs), `document` (OnnxDocument). `signs` is an edit of this format."""
