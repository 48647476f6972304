//! The replay's constants: lags that one machine and one profiler share over a whole trace, each from measured samples.

use crate::units::DurNs;

use super::activities::ActivityKind;
use crate::stats;

/// How many kinds of device work there are.
const KINDS: usize = ActivityKind::ALL.len();

/// Fewest samples that make a constant of their own; below, samples of all kinds are pooled.
const ENOUGH: usize = 3;

/// What a host call waited for; each has its own return lag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WaitKind {
    /// A device synchronisation.
    Device,
    /// A stream synchronisation.
    Stream,
    /// An event synchronisation.
    Event,
    /// A release of device memory.
    Free,
    /// A blocking copy to the device.
    CopyIn,
    /// A copy to the device whose call returns when the last part is staged, before the copy ends.
    StagedIn,
    /// A blocking copy from the device.
    CopyOut,
    /// The launch queue.
    Queue,
}

impl WaitKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 8] =
        [Self::Device, Self::Stream, Self::Event, Self::Free, Self::CopyIn, Self::StagedIn, Self::CopyOut, Self::Queue];
}

/// A lag with the number of samples behind it (of all kinds where it is pooled); without samples the lag is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// The lag.
    pub lag: DurNs,
    /// How many measured pairs it stands for.
    pub samples: u32,
}

impl Lag {
    /// Whether there are samples enough to speak of a constant; else each measured lag stands for itself.
    pub fn is_constant(self) -> bool {
        self.samples as usize >= ENOUGH
    }
}

/// The constants of one trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayConstants {
    /// `L`: end of the launch call → start of the work on an idle stream, by [`ActivityKind`]; median. Clock skew between
    /// host and device is in it, so it may be negative.
    pub launch: [Lag; KINDS],
    /// `L` from the start of the call, for graph launches and copies of pageable memory, by [`ActivityKind`]; median.
    pub launch_from_start: [Lag; KINDS],
    /// `G`: end of the work before → start of the work, back to back on a stream, by [`ActivityKind`] of both;
    /// 5 %-trimmed mean. Negative where kernels overlap (dependent launch).
    pub follow: [[Lag; KINDS]; KINDS],
    /// `R`: end of the awaited work → end of the call, by [`WaitKind`]; median over calls that blocked.
    pub wait: [Lag; WaitKind::ALL.len()],
    /// End of the awaited work → start of the work on the stream that waited for its event; median.
    pub event: Lag,
}

impl ReplayConstants {
    /// `G` between work of two kinds.
    pub fn follow(&self, before: ActivityKind, after: ActivityKind) -> DurNs {
        self.follow[before as usize][after as usize].lag
    }

    /// `R` of a kind of wait.
    pub fn wait(&self, kind: WaitKind) -> DurNs {
        self.wait[kind as usize].lag
    }
}

/// The median; the lower of the two middle values when there are two; zero without values.
pub(super) fn median(values: &mut [DurNs]) -> DurNs {
    stats::lower_quantile(values, (1, 2)).unwrap_or_default()
}

/// The lower quartile; zero without values.
pub(super) fn lower_quartile(values: &mut [DurNs]) -> DurNs {
    stats::lower_quantile(values, (1, 4)).unwrap_or_default()
}

/// The mean of the values between the 5th and the 95th percentile; zero without values.
pub(super) fn trimmed_mean(values: &mut [DurNs]) -> DurNs {
    let mut values: Vec<f64> = values.iter().map(|value| value.0 as f64).collect();
    let cut = values.len() / 20;
    DurNs(stats::trimmed_mean(&mut values, cut).unwrap_or_default().round() as i64)
}

/// One constant per group of samples; groups with fewer than three take that of all samples together.
pub(super) fn per_group<const N: usize>(
    mut groups: [Vec<DurNs>; N],
    statistic: impl Fn(&mut [DurNs]) -> DurNs,
) -> [Lag; N] {
    let mut all: Vec<DurNs> = groups.iter().flatten().copied().collect();
    let count = all.len() as u32;
    let pooled = Lag { lag: statistic(&mut all), samples: count };
    let mut lags = [pooled; N];
    for (lag, group) in lags.iter_mut().zip(&mut groups) {
        if group.len() >= ENOUGH {
            *lag = Lag { lag: statistic(group), samples: group.len() as u32 };
        }
    }
    lags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(values: &[i64]) -> Vec<DurNs> {
        values.iter().map(|&v| DurNs(v)).collect()
    }

    #[test]
    fn small_groups_take_the_pooled_constant() {
        let lags = per_group([ns(&[1, 2, 3]), ns(&[100]), ns(&[])], median);
        assert_eq!(lags.map(|lag| (lag.lag.0, lag.samples)), [(2, 3), (2, 4), (2, 4)]);
    }

    #[test]
    fn the_trimmed_mean_leaves_out_a_twentieth_at_each_end() {
        let mut values = ns(&[10; 40]);
        values[0] = DurNs(-1_000_000);
        values[39] = DurNs(5_000_000);
        assert_eq!(trimmed_mean(&mut values), DurNs(10));
        assert_eq!(trimmed_mean(&mut []), DurNs::ZERO);
    }

    #[test]
    fn quantiles_take_the_lower_value() {
        assert_eq!(median(&mut ns(&[4, 1, 3, 2])), DurNs(2));
        assert_eq!(lower_quartile(&mut ns(&[5, 4, 3, 2, 1])), DurNs(2));
        assert_eq!(median(&mut []), DurNs::ZERO);
    }
}
