//! Which figures of an answer cannot be: times below nothing, bands that leave out their figure, shares of more than all.

use serde_json::Value;

/// Times that are differences, which may be below nothing.
const CHANGES: [&str; 6] = ["alone_ns", "marginal_ns", "end_ns", "begin_ns", "change_ns", "gain_ns"];
/// Figures and the band that they lie in; where there is but one band, it is that of the figure that comes first.
const BANDS: [(&str, &str); 3] =
    [("steady_ns", "steady_band"), ("steady_ns", "error_band"), ("simulated_ns", "error_band")];
/// Figures that stand beside the ends of their band, the first that there is.
const BESIDE: [&str; 4] = ["steady_ns", "iteration_ns", "simulated_ns", "period_ns"];
/// Shares of a whole.
const SHARES: [&str; 12] = [
    "gpu_busy",
    "unexplained_share",
    "anchored_share",
    "unrecorded_share",
    "unmodelled_share",
    "extrapolated_share",
    "left_out_share",
    "unhandled_share",
    "predicted_share",
    "assumed_share",
    "latency_share",
    "share",
];

/// What cannot be in `answer`, in words; `None` where all can.
pub fn impossible(answer: &Value) -> Option<String> {
    match answer {
        Value::Array(items) => items.iter().find_map(impossible),
        Value::Object(fields) => {
            let alone = fields.iter().find_map(|(name, value)| {
                below_nothing(name, value).or_else(|| out_of_share(name, value)).or_else(|| beyond_all(name, value))
            });
            let within = || {
                let both = fields.contains_key("steady_band");
                let bands = BANDS.into_iter().filter(|&(figure, band)| {
                    let is_steady = figure == "steady_ns";
                    if both {
                        is_steady == (band == "steady_band")
                    } else {
                        is_steady == fields.contains_key("steady_ns")
                    }
                });
                bands.into_iter().find_map(|(figure, band)| outside(fields.get(figure)?, fields.get(band)?, figure))
            };
            let own = || {
                let figure = BESIDE.into_iter().find_map(|name| fields.get(name))?;
                fields.get("low_ns").and_then(|_| outside(figure, answer, "its figure"))
            };
            alone.or_else(within).or_else(own).or_else(|| fields.values().find_map(impossible))
        }
        _ => None,
    }
}

fn below_nothing(name: &str, value: &Value) -> Option<String> {
    let time = value.as_i64().filter(|_| name.ends_with("_ns") && !CHANGES.contains(&name))?;
    (time < 0).then(|| format!("{name} is {time}"))
}

/// No time, count or size is so large that a double does not count it exactly; the origin of a trace's clock may be.
fn beyond_all(name: &str, value: &Value) -> Option<String> {
    const MOST: f64 = (1_u64 << 53) as f64;
    let is_counted = name.ends_with("_ns") || name.ends_with("_bytes") || name.contains("batch");
    let number = value.as_f64().filter(|_| is_counted && name != "origin_ns")?;
    (number.abs() > MOST).then(|| format!("{name} is {value}"))
}

fn out_of_share(name: &str, value: &Value) -> Option<String> {
    // What a step says may be of no share.
    if !SHARES.contains(&name) || (name == "share" && value.is_null()) {
        return None;
    }
    let is_share = value.as_f64().is_some_and(|share| (0.0..=1.0 + 1e-9).contains(&share));
    (!is_share).then(|| format!("{name} is {value}"))
}

fn outside(figure: &Value, band: &Value, name: &str) -> Option<String> {
    let (low, high) = (band.get("low_ns")?.as_i64()?, band.get("high_ns")?.as_i64()?);
    let figure = figure.as_i64()?;
    (low < 0 || figure < low || high < figure).then(|| format!("{name}: {figure} outside {low} to {high}"))
}
