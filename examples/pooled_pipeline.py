"""All data in one place: the estimator in an ordinary scikit-learn pipeline.

`SafleClassifier` gives the model that a federation of any number of clients would give, so it
is also the way to find out beforehand what a federation could reach.
"""

from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from safle import SafleClassifier

features, labels = load_wine(return_X_y=True)
pipeline = make_pipeline(StandardScaler(), SafleClassifier())
scores = cross_val_score(pipeline, features, labels, cv=3)
print(f"wine, three-fold cross-validation: {scores.mean():.1%} right")

pipeline.fit(features, labels)
statistics = pipeline[-1].statistics_
megabytes = statistics.gram.packed.nbytes / 1e6
print(f"the fit is {statistics.sample_count} samples in {megabytes:.1f} MB of counts")
