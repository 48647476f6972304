//! When each operator of a made-up job runs: the multi-GPU algorithm [Lin24 Alg. 1], keeping every span.

use retime_core::units::TimeNs;

use super::Operator;

/// Gap between kernels of a stream, in ns [Lin22 Alg. 1].
const GAP: i64 = 1_000;

/// A piece of time.
pub(super) type Span = (TimeNs, TimeNs);

/// When an operator ran.
#[derive(Clone, Debug)]
pub(super) struct Placed<'a> {
    pub(super) operator: &'a Operator,
    pub(super) step: u32,
    /// On the host.
    pub(super) span: Span,
    /// Its launch calls, in order of its kernels.
    pub(super) calls: Vec<Span>,
    /// Its kernels.
    pub(super) kernels: Vec<Span>,
}

/// Fronts of one rank.
#[derive(Clone, Debug, Default)]
struct Fronts {
    host: i64,
    compute: i64,
    comm: i64,
}

/// Runs `steps` steps on all ranks together.
pub(super) fn schedule(ranks: &[Vec<Operator>], steps: u32) -> Vec<Vec<Placed<'_>>> {
    let mut fronts = vec![Fronts::default(); ranks.len()];
    let mut placed: Vec<Vec<Placed<'_>>> = vec![Vec::new(); ranks.len()];
    let count = ranks.first().map_or(0, Vec::len);
    for (step, index) in (0..steps).flat_map(|step| (0..count).map(move |index| (step, index))) {
        for ((operators, fronts), placed) in ranks.iter().zip(&mut fronts).zip(&mut placed) {
            placed.push(place(&operators[index], step, fronts));
        }
        if ranks.iter().any(|operators| operators[index].collective.is_some()) {
            let joined = fronts.iter().map(|fronts| fronts.comm).max().unwrap_or(0);
            for (fronts, placed) in fronts.iter_mut().zip(&mut placed) {
                fronts.comm = joined;
                if let Some(kernel) = placed.last_mut().and_then(|placed| placed.kernels.last_mut()) {
                    kernel.1 = TimeNs(joined);
                }
            }
        }
    }
    placed
}

fn place<'a>(operator: &'a Operator, step: u32, fronts: &mut Fronts) -> Placed<'a> {
    let t = &operator.overheads;
    fronts.host += t[1];
    if operator.collective.is_some() || operator.reads_collective {
        let both = fronts.compute.max(fronts.comm);
        (fronts.compute, fronts.comm) = (both, both);
    }
    let start = TimeNs(fronts.host);
    fronts.host += t[2];
    let (mut calls, mut kernels) = (Vec::new(), Vec::new());
    for (index, (_, duration)) in operator.kernels.iter().enumerate() {
        let front = if operator.collective.is_some() { &mut fronts.comm } else { &mut fronts.compute };
        let begin = (*front + GAP).max(fronts.host + t[4] / 2);
        *front = begin + duration.0;
        calls.push((TimeNs(fronts.host), TimeNs(fronts.host + t[4])));
        kernels.push((TimeNs(begin), TimeNs(*front)));
        fronts.host += t[4] + if index + 1 < operator.kernels.len() { t[5] } else { 0 };
    }
    fronts.host += t[3];
    Placed { operator, step, span: (start, TimeNs(fronts.host)), calls, kernels }
}
