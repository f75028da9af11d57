"""The networks in plain torch: one family a file, parameters named as in their weights files.

Each is a `Classifier`: ``embed`` gives the features, ``forward`` the ImageNet scores. Only
an export to ONNX and a GPU ever run them; nothing here is imported without need.
"""
