//! Factors of models that are not fitted as a whole, from measurements.

use retime_core::cost::CostModels;
use retime_core::cost::scale::{Scale, ScaleKind};
use retime_core::device::DeviceProfile;

use crate::{ErrorSummary, Measurement, is_held_out, summarise};

/// Fewest rows that make a factor.
pub const FEWEST_SCALED: usize = 6;

/// The factor of `kind` that `rows` of `device` tell, over what `models` say, fitted to the rows that are not held out.
///
/// # Returns
/// The factor with the errors on held-out rows; `None` of too few rows.
pub fn fit_scale(
    kind: ScaleKind,
    rows: &[&Measurement],
    models: &CostModels,
    device: &DeviceProfile,
) -> Option<(Scale, ErrorSummary)> {
    let modelled = |row: &&Measurement| {
        let us = models.estimate(&row.work, device)?.duration.0 as f64 / 1e3;
        (us > 0.0 && row.us > 0.0).then_some((us, row.us, is_held_out(&row.work)))
    };
    let all: Vec<(f64, f64, bool)> = rows.iter().filter_map(modelled).collect();
    let train: Vec<f64> = all.iter().filter(|row| !row.2).map(|(model, us, _)| (us / model).ln()).collect();
    let test = || all.iter().filter(|row| row.2);
    if train.len() < FEWEST_SCALED || test().next().is_none() {
        return None;
    }
    let factor = (train.iter().sum::<f64>() / train.len() as f64).exp();
    let errors = summarise(test().map(|(model, us, _)| (model * factor, *us)));
    Some((Scale { kind, factor, error: errors.mape, n: train.len() as u32 }, errors))
}
