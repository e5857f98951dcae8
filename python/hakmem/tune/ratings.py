"""How strong each arm is, from duels: Bradley and Terry's model, told by how much, not only who.

In their model each run has a latent cost, and the difference of two follows a logistic curve around
the difference of the arms' strengths: that curve at zero is the chance to win a duel. Here the
differences themselves are seen, so their density is the likelihood. Some duels are disturbed by
something else on the machine; such a margin says little of the arms, and by how unlikely it is
otherwise each duel is weighed. docs/decisions/0045-tune.md has the simulations behind this.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Array = NDArray[np.float64]

# The Elo scale: 400 points are odds of ten to one. Their mean is nobody's merit.
ELO = 400 / math.log(10)
MEAN_ELO = 1500.0

# One duel in so many is disturbed, and by about so much.
DISTURBED = 0.06
DISTURBANCE = 0.3
# Strengths before any duel, Student's t: most settings change little, a few change a lot.
USUAL_STRENGTH = 0.04
STRENGTH_FREEDOM = 3.0
# Scale of the noise before any duel, and the range of what it may be.
USUAL_NOISE, NOISE_SPREAD = 0.025, 0.7
NOISES = np.geomspace(0.002, 0.3, 9)
NEARBY = np.exp(np.linspace(-0.6, 0.6, 7))
STEPS = 40
CLOSE = 1e-5


@dataclass(frozen=True)
class Duel:
    """Two arms by number, run one after the other. Margin: log of the second's cost by the first's,
    above 0 if the first won."""

    first: int
    second: int
    margin: float


@dataclass(frozen=True)
class Estimate:
    """A figure with its standard error."""

    value: float
    error: float

    def bounds(self, z: float) -> tuple[float, float]:
        return self.value - z * self.error, self.value + z * self.error


@dataclass(frozen=True)
class Ratings:
    """Strengths (the negative log of cost; more is better), how sure they are, and the noise."""

    strength: Array
    covariance: Array
    noise: float

    def against(self, arm: int, other: int) -> Estimate:
        """How much stronger `arm` is."""
        variance = (
            self.covariance[arm, arm]
            + self.covariance[other, other]
            - 2 * self.covariance[arm, other]
        )
        value = float(self.strength[arm] - self.strength[other])
        return Estimate(value, math.sqrt(max(float(variance), 0.0)))

    def elo(self, arm: int) -> Estimate:
        """On the Elo scale, seen from the mean of all arms."""
        count = len(self.strength)
        contrast = np.full(count, -1.0 / count)
        contrast[arm] += 1.0
        variance = float(contrast @ self.covariance @ contrast)
        points = ELO / self.noise
        value = MEAN_ELO + points * float(contrast @ self.strength)
        return Estimate(value, points * math.sqrt(max(variance, 0.0)))

    def errors(self) -> Array:
        return np.sqrt(np.diag(self.covariance))


def simultaneous(level: float, comparisons: int) -> float:
    """How many standard errors hold at this level for all of so many comparisons (Bonferroni)."""
    return float(stats.norm.isf((1 - level) / (2 * max(comparisons, 1))))


def fit(arms: int, duels: Sequence[Duel]) -> Ratings:
    """The posterior mean and covariance, over all that the noise may be."""
    design = np.zeros((len(duels), arms))
    for row, duel in enumerate(duels):
        design[row, duel.first], design[row, duel.second] = 1.0, -1.0
    margins = np.array([duel.margin for duel in duels])
    coarse = _Fit(design, margins, NOISES)
    near = coarse.noises[np.argmax(coarse.evidence)] * NEARBY
    return _Fit(design, margins, near).ratings()


class _Fit:
    """The most likely strengths for each of several noises at once.

    Disturbed duels make more than one answer possible, so that each noise is tried from two ends:
    no arm differs, and every margin is taken at its word.
    """

    def __init__(self, design: Array, margins: Array, noises: Array) -> None:
        self.design, self.margins = design, margins
        arms = design.shape[1]
        plain = np.linalg.solve(design.T @ design + 0.01 * np.eye(arms), design.T @ margins)
        self.noises = np.repeat(noises, 2)
        self.strengths = np.tile(np.stack([np.zeros(arms), plain]), (len(noises), 1))
        for _ in range(STEPS):
            if self._step() < CLOSE:
                break
        self._conclude()

    def _residuals(self) -> tuple[Array, Array, Array]:
        """What the strengths leave of the margins, log-likelihoods, chances to be undisturbed."""
        rest = self.margins - self.strengths @ self.design.T
        clean = math.log1p(-DISTURBED) + _log_logistic(rest, self.noises[:, None])
        disturbed = math.log(DISTURBED) + _log_logistic(rest, DISTURBANCE)
        either = np.logaddexp(clean, disturbed)
        return rest, either, np.exp(clean - either)

    def _information(self, weights: Array) -> Array:
        prior = (STRENGTH_FREEDOM + 1) / (STRENGTH_FREEDOM * USUAL_STRENGTH**2 + self.strengths**2)
        own = (self.design.T * weights[:, None, :]) @ self.design
        own += prior[:, :, None] * np.eye(self.design.shape[1])
        return own

    def _step(self) -> float:
        """Weighted least squares, whose weights make the same slope as the likelihood's."""
        rest, _, clean = self._residuals()
        ratio = np.maximum(np.abs(rest) / self.noises[:, None], 1e-6)
        weights = clean * np.tanh(ratio / 2) / ratio / self.noises[:, None] ** 2
        wanted = (weights * self.margins) @ self.design
        found = np.linalg.solve(self._information(weights), wanted[:, :, None])[:, :, 0]
        moved = float(np.max(np.abs(found - self.strengths)))
        self.strengths = found
        return moved

    def _conclude(self) -> None:
        """Laplace's approximation: curvature gives the covariance, and the evidence for a noise."""
        _, likelihood, clean = self._residuals()
        # Of a logistic density a third of 1/noise^2 is expected, whatever was drawn.
        information = self._information(clean / (3 * self.noises[:, None] ** 2))
        self.covariances = np.linalg.inv(information)
        prior = (
            -(STRENGTH_FREEDOM + 1)
            / 2
            * np.log1p((self.strengths / USUAL_STRENGTH) ** 2 / STRENGTH_FREEDOM)
        )
        usual = -0.5 * (np.log(self.noises / USUAL_NOISE) / NOISE_SPREAD) ** 2
        self.evidence = (
            likelihood.sum(axis=1)
            + prior.sum(axis=1)
            + usual
            - np.linalg.slogdet(information)[1] / 2
        )

    def ratings(self) -> Ratings:
        share = special.softmax(self.evidence)
        mean = share @ self.strengths
        apart = self.strengths - mean
        within = np.tensordot(share, self.covariances, axes=1)
        noise = math.exp(float(share @ np.log(self.noises)))
        return Ratings(mean, within + (apart.T * share) @ apart, noise)


def _log_logistic(rest: Array, scale: Array | float) -> Array:
    size = np.abs(rest) / scale
    found: Array = -size - 2 * np.log1p(np.exp(-size)) - np.log(scale)
    return found
