"""The journal: labels, rounds and acquisitions, written once and never changed."""

from natsel import options as _options
from natsel.store.checking import Report as Report
from natsel.store.history import Acquisition as Acquisition
from natsel.store.history import Amendment as Amendment
from natsel.store.history import Ask as Ask
from natsel.store.history import Label as Label
from natsel.store.history import Round as Round
from natsel.store.history import Run as Run
from natsel.store.history import Stop as Stop
from natsel.store.history import Terms as Terms
from natsel.store.journal import Journal as Journal
from natsel.store.points import Points as Points
from natsel.store.state import RunState as RunState

_options.checked_names(globals())
