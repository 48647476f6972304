//! Kernels bound by memory over all their families, as the prototype's aim counted them.

use std::collections::BTreeMap;

use super::{Seen, ValidationRow, aim};
use crate::ErrorSummary;
use retime_core::cost::domain::Domain;

const POOLED: [Domain; 3] = [Domain::Norm, Domain::Softmax, Domain::Streaming];

/// For each device that `rows` has all three families of: the mean error over the held-out rows that count of them, every row alike.
pub(super) fn rows(rows: &[ValidationRow]) -> Vec<ValidationRow> {
    let mut devices: BTreeMap<&str, Vec<&ErrorSummary>> = BTreeMap::new();
    for row in rows.iter().filter(|row| POOLED.iter().any(|domain| domain.name() == row.family)) {
        if row.target.is_some() && row.kernels.n > 0 {
            devices.entry(&row.device).or_default().push(&row.kernels);
        }
    }
    let target = aim(Domain::Streaming, Seen::Table);
    let pooled = |(device, parts): (&str, Vec<&ErrorSummary>)| {
        let n = parts.iter().map(|part| part.n).sum::<usize>();
        let mape = parts.iter().map(|part| part.mape * part.n as f64).sum::<f64>() / n as f64;
        ValidationRow {
            family: "norm, softmax and streaming pooled".to_owned(),
            device: device.to_owned(),
            model: "fits",
            target,
            met: target.map(|aim| mape <= aim),
            ..ValidationRow::unmeasured(ErrorSummary::of_mean(n, mape))
        }
    };
    devices.into_iter().filter(|(_, parts)| parts.len() == POOLED.len()).map(pooled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_all_three_families_count_alike() {
        let row = |domain: Domain, device: &str, n, mape| ValidationRow {
            family: domain.name().to_owned(),
            device: device.to_owned(),
            target: Some(0.025),
            ..ValidationRow::unmeasured(ErrorSummary::of_mean(n, mape))
        };
        let all = [
            row(Domain::Norm, "A", 10, 0.04),
            row(Domain::Softmax, "A", 20, 0.05),
            row(Domain::Streaming, "A", 70, 0.01),
            row(Domain::Streaming, "B", 70, 0.01),
            row(Domain::Linear, "A", 70, 0.5),
        ];
        let pooled = rows(&all);
        assert_eq!((pooled.len(), pooled[0].device.as_str(), pooled[0].kernels.n), (1, "A", 100));
        assert!((pooled[0].kernels.mape - 0.021).abs() < 1e-12);
        assert_eq!(pooled[0].met, Some(true));
    }
}
