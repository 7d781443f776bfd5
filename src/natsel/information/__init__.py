"""Information: pure functions, tensors in and nats out; knows no model, no data set, no file. Usable alone."""

from natsel.information.binomial import log_binomial, log_binomial_gap, log_binomial_upper_bound
from natsel.information.calculus import DiscreteJoint, GaussianJoint, PredictiveJoint, info
from natsel.information.diagrams import IDiagram
from natsel.information.entropy import cross_entropy, elbo, entropy, information_content, kl_divergence
from natsel.information.gaussian import (
    gaussian_conditional_covariance,
    gaussian_entropy,
    gaussian_expected_surprisal,
    gaussian_mutual_information,
    log_det_gain,
    moment_matched_entropy,
    moment_matched_mutual_information,
    normal_entropy,
)
from natsel.information.gaussian_predictive import epig_gaussian, jepig_gaussian, probit_bald, probit_bald_closed
from natsel.information.joint import (
    DynamicJointEntropy,
    ExactJointEntropy,
    SampledJointEntropy,
    joint_entropy,
    joint_mutual_information,
    joint_mutual_information_sampled,
    total_correlation,
)
from natsel.information.known_labels import information_gain, posterior_log_weights, surprise
from natsel.information.mutual import (
    conditional_entropy,
    log_mean,
    member_disagreement,
    mutual_information,
    pointwise_mutual_information,
    predictive_entropy,
    standard_deviation,
    variance,
)
from natsel.information.predictive import epig, epig_chi2, pairwise_predictive_information

__all__ = [
    "DiscreteJoint",
    "DynamicJointEntropy",
    "ExactJointEntropy",
    "GaussianJoint",
    "IDiagram",
    "PredictiveJoint",
    "SampledJointEntropy",
    "conditional_entropy",
    "cross_entropy",
    "elbo",
    "entropy",
    "epig",
    "epig_chi2",
    "epig_gaussian",
    "gaussian_conditional_covariance",
    "gaussian_entropy",
    "gaussian_expected_surprisal",
    "gaussian_mutual_information",
    "info",
    "information_content",
    "information_gain",
    "jepig_gaussian",
    "joint_entropy",
    "joint_mutual_information",
    "joint_mutual_information_sampled",
    "kl_divergence",
    "log_binomial",
    "log_binomial_gap",
    "log_binomial_upper_bound",
    "log_det_gain",
    "log_mean",
    "member_disagreement",
    "moment_matched_entropy",
    "moment_matched_mutual_information",
    "mutual_information",
    "normal_entropy",
    "pairwise_predictive_information",
    "pointwise_mutual_information",
    "posterior_log_weights",
    "predictive_entropy",
    "probit_bald",
    "probit_bald_closed",
    "standard_deviation",
    "surprise",
    "total_correlation",
    "variance",
]
