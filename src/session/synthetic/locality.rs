//! How often rows of embedding tables recur in a batch, from the statistics that dlrm_datasets publishes.

use std::collections::BTreeMap;

use retime_core::cost::Reuse;
use retime_core::cost::reuse::REUSE_BINS;
use serde::Deserialize;

/// Statistics of one file of look-ups.
#[derive(Debug, Deserialize)]
struct Statistics {
    num_indices: f64,
    /// Share of the look-ups by how often their row is looked up: `(2, 4]`, the last bin `(32768, inf)`.
    share_of_accesses_by_reuse_bin: BTreeMap<String, f64>,
}

/// The histogram that `text`, a JSON list of statistics, gives on average; every file counts as much as it has look-ups.
///
/// # Errors
/// What is wrong in it.
pub fn measured_reuse(text: &str) -> Result<Reuse, String> {
    let files: Vec<Statistics> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut bins = Box::new([0.0; REUSE_BINS]);
    for file in &files {
        for (name, share) in &file.share_of_accesses_by_reuse_bin {
            let bin = bin(name).ok_or_else(|| format!("`{name}` is no bin of powers of two"))?;
            bins[bin] += share * file.num_indices;
        }
    }
    let all: f64 = bins.iter().sum();
    if !(all > 0.0 && all.is_finite() && bins.iter().all(|share| *share >= 0.0)) {
        return Err("expected shares of look-ups by bin, and how many there are".to_owned());
    }
    bins.iter_mut().for_each(|share| *share /= all);
    Ok(Reuse::Histogram(bins))
}

/// The place of `(2, 4]`: its upper end is `2^place`.
fn bin(name: &str) -> Option<usize> {
    let end = name.split_once(',')?.1.trim().trim_end_matches([']', ')']);
    if end == "inf" {
        return Some(REUSE_BINS - 1);
    }
    let end: u64 = end.parse().ok()?;
    let place = end.checked_ilog2()? as usize;
    (end.is_power_of_two() && place < REUSE_BINS).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_by_their_look_ups_and_bins_by_their_ends() {
        let text = r#"[
            {"num_indices": 30, "share_of_accesses_by_reuse_bin": {"(0, 1]": 0.5, "(32768, inf)": 0.5}},
            {"num_indices": 10, "share_of_accesses_by_reuse_bin": {"(8, 16]": 1.0}}]"#;
        let Ok(Reuse::Histogram(bins)) = measured_reuse(text) else { panic!("no histogram") };
        assert_eq!((bins[0], bins[4], bins[16]), (0.375, 0.25, 0.375));
        assert!(measured_reuse(&text.replace("(8, 16]", "(8, 17]")).unwrap_err().contains("(8, 17]"));
        assert!(measured_reuse("[]").is_err() && measured_reuse("{").is_err());
    }
}
