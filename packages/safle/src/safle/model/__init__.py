"""Model: weights -> predictions.

A `Model` is an encoder and solved weights: it predicts, saves and loads itself (`load_model`), and
`safle.model.export` writes it as an ONNX graph. `safle.SafleClassifier` is the same for
scikit-learn, from features to predictions.
"""
