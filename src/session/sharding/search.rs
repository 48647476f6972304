//! The search for a placement: the best of the traced one and the sharders', made to fit the memory of every rank, then moves,
//! swaps, cuts and copies of tables as long as the simulator finds the iteration shorter.

use std::cmp::Reverse;

use retime_core::scenario::tables::Sharder;
use retime_core::scenario::tables::{ShardingType, Table, TablePlacement};
use retime_core::units::{Bytes, DurNs};

use super::{SEARCH_BUDGET, Sharding, ShardingPlan, is_better};

/// Tables of the heaviest rank that are cut or copied on trial, the longest first.
const MOST_CUT: usize = 6;
/// A table is copied to all ranks when it fills no more of one than this share.
const SMALL: f64 = 0.05;

/// Columns below which a part is too narrow to be read well.
const NARROW: f64 = 8.0;

/// New placements for some tables, by position.
type Change = Vec<(usize, TablePlacement)>;

/// A placement with what it takes.
struct Found {
    placements: Vec<TablePlacement>,
    plan: ShardingPlan,
}

impl Sharding<'_> {
    /// The best of the traced placement, all sharders, and what moves, swaps, cuts and copies of tables make of the best of
    /// those; tables that fit on no rank are cut, else kept behind the host's link.
    ///
    /// # Arguments
    /// `go_on`: is told how many changes have been tried, of [`SEARCH_BUDGET`], and says whether to go on. What has been
    /// found until then is the answer.
    pub fn search(&self, go_on: &mut dyn FnMut(usize) -> bool) -> ShardingPlan {
        let found = |placements: Vec<TablePlacement>| Found { plan: self.evaluate("best", &placements), placements };
        let mut best = found(self.tables().placements());
        for sharder in Sharder::ALL {
            if !go_on(0) {
                return best.plan;
            }
            let Some(placement) = sharder.place(self.tables().sharded(), &self.job.able) else { continue };
            let placed: Vec<TablePlacement> = placement.into_iter().map(TablePlacement::whole).collect();
            let fitted = self.fitted(&placed);
            for placements in std::iter::once(fitted).chain([placed]) {
                if placements == best.placements {
                    continue;
                }
                let other = found(placements);
                if is_better(&other.plan, &best.plan) {
                    best = other;
                }
            }
        }
        let other = found(self.fitted(&best.placements));
        best = if is_better(&other.plan, &best.plan) { other } else { best };
        let mut tried = 0;
        let mut may_try = || {
            tried += 1;
            tried <= SEARCH_BUDGET && go_on(tried)
        };
        while let Some(better) = self.improve(&best, &mut may_try) {
            best = better;
        }
        best.plan
    }

    /// The first change that makes the iteration shorter, in order of the load that it leaves on the heaviest rank.
    fn improve(&self, from: &Found, may_try: &mut dyn FnMut() -> bool) -> Option<Found> {
        let loads = self.job.lookup_times(&self.resolve(&from.placements));
        for change in self.changes(&from.placements, &loads) {
            if !may_try() {
                return None;
            }
            let mut placements = from.placements.clone();
            for (table, placement) in change {
                placements[table] = placement;
            }
            let plan = self.evaluate("best", &placements);
            if is_better(&plan, &from.plan) {
                return Some(Found { placements, plan });
            }
        }
        None
    }

    /// Changes that take load off the rank with most look-ups, by the most that any rank would then have.
    fn changes(&self, placements: &[TablePlacement], loads: &[DurNs]) -> Vec<Change> {
        let able = &self.job.able;
        let Some(&source) = able.iter().max_by_key(|&&rank| (loads[rank], Reverse(rank))) else { return Vec::new() };
        let own: Vec<usize> =
            (0..placements.len()).filter(|&table| placements[table].ranks.contains(&source)).collect();
        let mut all: Vec<Change> = Vec::new();
        for &table in own.iter().filter(|&&table| placements[table].cut == ShardingType::Whole) {
            let targets = able.iter().filter(|&&target| target != source);
            all.extend(
                targets
                    .map(|&target| vec![(table, TablePlacement { ranks: vec![target], ..placements[table].clone() })]),
            );
            let others = (0..placements.len()).filter(|&other| {
                placements[other].cut == ShardingType::Whole
                    && placements[other].ranks != placements[table].ranks
                    && self.time(other) < self.time(table)
            });
            all.extend(others.map(|other| {
                let to = |from: usize, at: usize| TablePlacement {
                    ranks: placements[at].ranks.clone(),
                    ..placements[from].clone()
                };
                vec![(table, to(table, other)), (other, to(other, table))]
            }));
        }
        all.extend(self.cuts(placements, &own, source, loads));
        let mut rated: Vec<(DurNs, Change)> =
            all.into_iter().map(|change| (self.heaviest(placements, loads, &change), change)).collect();
        rated.retain(|&(most, _)| most < loads[source]);
        rated.sort_by_key(|&(most, _)| most);
        let back = own.iter().filter(|&&table| placements[table].cached.is_some());
        let back = back.map(|&table| vec![(table, TablePlacement { cached: None, ..placements[table].clone() })]);
        back.chain(rated.into_iter().map(|(_, change)| change)).collect()
    }

    /// The longest tables of a rank cut over it and the lightest, or over all; small ones copied.
    fn cuts(&self, placements: &[TablePlacement], own: &[usize], source: usize, loads: &[DurNs]) -> Vec<Change> {
        let mut lightest: Vec<usize> = self.job.able.iter().copied().filter(|&rank| rank != source).collect();
        lightest.sort_by_key(|&rank| loads[rank]);
        let mut longest: Vec<usize> = own.to_vec();
        longest.sort_by_key(|&table| (Reverse(self.time(table)), table));
        let mut all = Vec::new();
        for &table in longest.iter().take(MOST_CUT) {
            let Some(sizes) = self.tables().sharded()[table].sizes() else { continue };
            let mut add = |ranks: Vec<usize>, cut: ShardingType, parts: f64| {
                if ranks.len() > 1 && parts >= ranks.len() as f64 {
                    all.push(vec![(table, TablePlacement { ranks, cut, ..placements[table].clone() })]);
                }
            };
            for (cut, parts) in [(ShardingType::Columns, sizes.dim), (ShardingType::Rows, sizes.rows)] {
                for &target in lightest.iter().take(2) {
                    add(sorted(vec![source, target]), cut, parts);
                }
                add(self.job.able.clone(), cut, parts);
            }
            if self.is_small(&self.tables().sharded()[table]) {
                add(self.job.able.clone(), ShardingType::Copies, sizes.batch);
            }
            if placements[table].cut != ShardingType::Whole {
                let alone = |&rank: &usize| {
                    vec![(
                        table,
                        TablePlacement { ranks: vec![rank], cut: ShardingType::Whole, ..placements[table].clone() },
                    )]
                };
                all.extend(lightest.iter().take(2).map(alone));
            }
        }
        all
    }

    fn is_small(&self, table: &Table) -> bool {
        let memory = (0..self.loaded.graph.ranks.len()).map(|rank| self.room(rank)).min().unwrap_or_default();
        table.bytes.is_some_and(|bytes| bytes.0 as f64 <= SMALL * memory.0 as f64)
    }

    /// Look-up time of a table as traced.
    fn time(&self, table: usize) -> DurNs {
        self.tables().tables[table].forward + self.tables().tables[table].backward
    }

    /// The most that any rank has to look up after a change, parts taken as equal.
    fn heaviest(&self, placements: &[TablePlacement], loads: &[DurNs], change: &Change) -> DurNs {
        let mut after = loads.to_vec();
        for (table, placement) in change {
            let share = |placement: &TablePlacement| DurNs(self.time(*table).0 / placement.ranks.len().max(1) as i64);
            placements[*table].ranks.iter().for_each(|&rank| after[rank] -= share(&placements[*table]));
            placement.ranks.iter().for_each(|&rank| after[rank] += share(placement));
        }
        after.into_iter().max().unwrap_or_default()
    }

    /// Bytes of tables that a rank may hold.
    fn room(&self, rank: usize) -> Bytes {
        let device = self.loaded.context.devices.get(rank).map_or(Bytes(0), |device| device.profile.memory);
        let device = if device.0 > 0 { device } else { Bytes(u64::MAX) };
        self.limit.map_or(device, |limit| limit.min(device))
    }

    /// `placements` with tables of overfull ranks moved where there is room, else cut, else kept behind the host's link.
    fn fitted(&self, placements: &[TablePlacement]) -> Vec<TablePlacement> {
        let mut placements = placements.to_vec();
        for _ in 0..3 * placements.len() {
            let held = self.tables().held(&placements);
            let over = |&rank: &usize| held[rank].0.saturating_sub(self.room(rank).0);
            let Some(rank) = (0..held.len()).filter(|rank| over(rank) > 0).max_by_key(over) else { break };
            let Some((table, placement)) = self.relief(&placements, &held, rank) else { break };
            placements[table] = placement;
        }
        placements
    }

    /// A table of an overfull rank and where to put it.
    fn relief(&self, placements: &[TablePlacement], held: &[Bytes], rank: usize) -> Option<(usize, TablePlacement)> {
        let tables = self.tables().sharded();
        let bytes = |table: usize| tables[table].bytes.map_or(0, |bytes| bytes.0);
        let room = |other: usize| self.room(other).0.saturating_sub(held[other].0);
        let is_kept = |table: &usize| placements[*table].ranks.contains(&rank) && placements[*table].cached.is_none();
        let mut own: Vec<usize> = (0..placements.len()).filter(is_kept).collect();
        own.sort_by_key(|&table| (Reverse(bytes(table)), table));
        let mut others: Vec<usize> = self.job.able.iter().copied().filter(|&other| other != rank).collect();
        others.sort_by_key(|&other| (Reverse(room(other)), other));
        let whole = || own.iter().copied().filter(|&table| placements[table].cut == ShardingType::Whole);
        if let Some((table, target)) =
            others.first().and_then(|&to| Some((whole().find(|&it| bytes(it) <= room(to))?, to)))
        {
            return Some((table, TablePlacement::whole(target)));
        }
        for table in whole().filter(|&table| tables[table].sizes().is_some()) {
            // Parts on the rank itself need room beside what else it holds.
            let parts = |count: usize| bytes(table) / count as u64 + 1;
            let rest = self.room(rank).0.saturating_sub(held[rank].0.saturating_sub(bytes(table)));
            for count in 2..=others.len() + 1 {
                let with_own: Vec<usize> = std::iter::once(rank).chain(others[..count - 1].iter().copied()).collect();
                let without = others.get(..count).map(<[usize]>::to_vec);
                let fits = |ranks: &Vec<usize>| {
                    ranks.iter().all(|&at| parts(count) <= if at == rank { rest } else { room(at) })
                };
                if let Some(ranks) = [Some(with_own), without].into_iter().flatten().find(fits) {
                    // Of columns less is exchanged: sums of some rows are as long as whole bags.
                    let columns = tables[table].sizes().map_or(0.0, |sizes| sizes.dim / count as f64);
                    let cut = if columns >= NARROW { ShardingType::Columns } else { ShardingType::Rows };
                    return Some((table, TablePlacement { ranks: sorted(ranks), cut, cached: None }));
                }
            }
        }
        // Of a table in host memory every row that is looked up crosses the link: the fewest per byte that is freed.
        let traffic =
            |table: usize| tables[table].sizes().map_or(f64::MAX, |sizes| sizes.batch * sizes.pooling * sizes.dim);
        let cost = |&table: &usize| traffic(table) / (bytes(table).max(1) as f64);
        let table = own.iter().copied().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
        Some((table, TablePlacement { cached: Some(0.0), ..placements[table].clone() }))
    }
}

fn sorted(mut ranks: Vec<usize>) -> Vec<usize> {
    ranks.sort_unstable();
    ranks
}
