//! Times of attention that contradict one another: a launch cannot take longer than one of the same kernel with more of the same to do.

use std::collections::BTreeMap;

use super::Measurement;
use retime_core::cost::work::Shape;

/// By how much a larger launch may take less: repeated measurements differ by that.
const NOISE: f64 = 1.05;
/// Share of such rows from which a table is unreliable as a whole. Tables of one kernel have 0.1 to 0.2 % of them.
const UNRELIABLE: f64 = 0.02;

/// Marks rows of attention that took longer than a launch of the same heads that is larger in batch and length, and all rows of devices with
/// more than a few of them. Rows are of one table.
///
/// # Complexity
/// O(rows · sizes of a series).
pub(super) fn mark_inconsistent(rows: &mut [Measurement]) {
    let mut series: BTreeMap<String, Vec<(usize, u64, u64, f64)>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        if let Some((key, batch, length)) = series_of(row) {
            series.entry(key).or_default().push((at, batch, length, row.us));
        }
    }
    let mut inconsistent = Vec::new();
    for one in series.values() {
        let is_inconsistent = |&(_, batch, length, us): &(usize, u64, u64, f64)| {
            one.iter().any(|&(_, b, l, other)| b >= batch && l >= length && other * NOISE < us)
        };
        inconsistent.extend(one.iter().filter(|row| is_inconsistent(row)).map(|(at, ..)| *at));
    }
    for at in inconsistent {
        rows[at].is_inconsistent = true;
    }
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for row in rows.iter() {
        let (all, of_them) = counts.entry(row.device.clone()).or_default();
        *all += 1;
        *of_them += usize::from(row.is_inconsistent);
    }
    let is_unreliable = |(all, of_them): &(usize, usize)| *of_them as f64 > UNRELIABLE * *all as f64;
    for row in rows {
        row.is_unreliable = counts.get(&row.device).is_some_and(is_unreliable);
    }
}

/// What launches of a series have in common, as text, and the batch and length by which they differ.
fn series_of(row: &Measurement) -> Option<(String, u64, u64)> {
    let Shape::Attention { batch, heads, queries, keys, dim, causal, backward } = row.work.shape else { return None };
    if queries != keys {
        return None;
    }
    // Heads of keys and values show in what is read.
    let read = row.work.read.0 / (batch * queries).max(1);
    let key = format!("{} {heads} {dim} {causal} {backward} {:?} {read}", row.device, row.work.precision);
    Some((key, batch, queries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use retime_core::cost::operators::{AttentionSize, attention_work};
    use retime_core::graph::DType;

    fn row(batch: u64, length: u64, us: f64) -> Measurement {
        let size =
            AttentionSize { batch, heads: 16, kv_heads: 16, queries: length, keys: length, dim: 64, causal: false };
        Measurement::of_kernel(attention_work(&size, false, DType::Bf16), "B200", us, 1)
    }

    #[test]
    fn a_time_that_more_work_falls_below_is_marked_and_makes_its_table_unreliable() {
        let mut rows = vec![row(1, 64, 30.0), row(1, 128, 14.0), row(2, 128, 14.5), row(2, 64, 13.9), row(4, 32, 99.0)];
        mark_inconsistent(&mut rows);
        assert_eq!(rows.iter().map(|row| row.is_inconsistent).collect::<Vec<_>>(), [true, false, false, false, false]);
        assert!(rows.iter().all(|row| row.is_unreliable));
        let mut quiet = vec![row(1, 64, 10.0), row(1, 128, 14.0), row(1, 256, 13.8)];
        mark_inconsistent(&mut quiet);
        assert!(quiet.iter().all(|row| !row.is_inconsistent && !row.is_unreliable));
    }
}
