"""Causal active learning: whose outcome to measure next, to know the effect of a treatment."""

from natsel import options as _options
from natsel.causal.data import CausalData as CausalData
from natsel.causal.data import causal_ihdp as causal_ihdp
from natsel.causal.data import causal_mnist as causal_mnist
from natsel.causal.data import causal_synthetic as causal_synthetic
from natsel.causal.data import check_treatment as check_treatment
from natsel.causal.data import digit_phi as digit_phi
from natsel.causal.data import examples_of as examples_of
from natsel.causal.data import synthetic_means as synthetic_means
from natsel.causal.data import synthetic_propensity as synthetic_propensity
from natsel.causal.data import treatment_of as treatment_of
from natsel.causal.data import with_treatment as with_treatment
from natsel.causal.deep_kernel import deep_kernel as deep_kernel
from natsel.causal.evaluation import AcquiredOverlap as AcquiredOverlap
from natsel.causal.evaluation import ate_error as ate_error
from natsel.causal.evaluation import overlap_of as overlap_of
from natsel.causal.evaluation import pehe as pehe
from natsel.causal.evaluation import policy_risk as policy_risk
from natsel.causal.evaluation import positivity as positivity
from natsel.causal.evaluation import sign_error_rate as sign_error_rate
from natsel.causal.models import SLearner as SLearner
from natsel.causal.models import TLearner as TLearner
from natsel.causal.propensity import Propensity as Propensity
from natsel.causal.two_arm_kernel import two_arm_kernel as two_arm_kernel
from natsel.causal.two_heads import tarnet as tarnet

_options.checked_names(globals())
