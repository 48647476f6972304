//! Numbers as files keep them.

/// `value` to `digits` significant digits: what is written to files is what was fitted, and is read back as such.
pub fn significant(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}
