//! Minimisation along one coordinate at a time, in logarithms: for a dozen positive parameters and a cost without derivatives.

/// Lowers `cost` from `start` within `bounds` (minimum and maximum of each parameter, above 0); parameters not in
/// `free` stay. Steps start at `e^0.4` and halve until below `e^0.01`.
///
/// Returns the best parameters and their cost. Calls of `cost`: at most `rounds · 2 · free` .
pub(super) fn minimise(
    start: &[f64],
    bounds: &[(f64, f64)],
    free: &[usize],
    rounds: usize,
    cost: impl Fn(&[f64]) -> f64,
) -> (Vec<f64>, f64) {
    let mut best = start.to_vec();
    let mut lowest = cost(&best);
    let mut steps: Vec<f64> = vec![0.4; start.len()];
    for _ in 0..rounds {
        let mut moved = false;
        for &at in free {
            let found = [steps[at], -steps[at]].into_iter().find_map(|step| {
                let mut trial = best.clone();
                trial[at] = (trial[at] * step.exp()).clamp(bounds[at].0, bounds[at].1);
                let value = cost(&trial);
                (value < lowest).then_some((trial, value, step))
            });
            match found {
                Some((trial, value, step)) => {
                    (best, lowest) = (trial, value);
                    steps[at] = (step * 1.3).clamp(-0.8, 0.8);
                    moved = true;
                }
                None => steps[at] *= 0.5,
            }
        }
        if !moved && free.iter().all(|&at| steps[at].abs() < 0.01) {
            break;
        }
    }
    (best, lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottom_of_a_bowl_is_found_and_bounds_are_kept() {
        let bowl = |p: &[f64]| (p[0].ln() - 2.0).powi(2) + (p[1].ln() + 1.0).powi(2) + p[2];
        let (best, _) = minimise(&[1.0, 1.0, 5.0], &[(1e-3, 1e3), (0.5, 1e3), (1e-3, 1e3)], &[0, 1], 200, bowl);
        assert!((best[0].ln() - 2.0).abs() < 0.02);
        assert!((best[1] - 0.5).abs() < 1e-9 && (best[2] - 5.0).abs() < 1e-9);
    }
}
