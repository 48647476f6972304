//! Why an aim was missed, from the rows themselves: what no model could do better than, which operators err most, the worst row.

use std::collections::BTreeMap;

use super::Row;

/// A difference between measurements that a perfect model would be blamed for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Floor {
    /// End of the names of the families that it counts for.
    pub(crate) ending: &'static str,
    /// What differs.
    pub(crate) what: &'static str,
    /// Geometric mean of the difference.
    pub(crate) error: f64,
    /// Of how many.
    pub(crate) n: usize,
}

/// Why `rows` are off.
pub(crate) fn because(rows: &[Row], floors: &[Floor]) -> String {
    let family = rows.first().map_or("", |row| row.family.as_str());
    let reasons = below(family, floors).into_iter().chain(operators(rows).or_else(|| worst(rows)));
    reasons.collect::<Vec<_>>().join("; ")
}

/// Why `row` is off.
pub(crate) fn of_row(row: &Row, floors: &[Floor]) -> String {
    let band = row.is_inside().map(|inside| format!("{} what is stated", if inside { "inside" } else { "outside" }));
    let reasons = below(&row.family, floors).into_iter().chain(operators(std::slice::from_ref(row))).chain(band);
    reasons.collect::<Vec<_>>().join("; ")
}

/// What no model of `rows` could do better than: the largest difference between measurements of the same.
pub(crate) fn noise(rows: &[Row], floors: &[Floor]) -> Option<f64> {
    of(rows.first()?.family.as_str(), floors).map(|floor| floor.error).reduce(f64::max)
}

fn of<'f>(family: &'f str, floors: &'f [Floor]) -> impl Iterator<Item = &'f Floor> {
    floors.iter().filter(move |floor| family.ends_with(floor.ending))
}

/// The same in words.
fn below(family: &str, floors: &[Floor]) -> Vec<String> {
    of(family, floors).map(|floor| format!("{} by {:.1} % (n {})", floor.what, 100.0 * floor.error, floor.n)).collect()
}

/// The operators whose errors are the largest shares of the iteration, on average over rows.
fn operators(rows: &[Row]) -> Option<String> {
    const NAMED: usize = 2;
    let mut shares: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    let with_parts: Vec<&Row> = rows.iter().filter(|row| !row.parts.is_empty()).collect();
    for row in &with_parts {
        for part in &row.parts {
            let share = (part.got - part.expected) / row.expected / with_parts.len() as f64;
            let [signed, size] = shares.entry(&part.operator).or_default();
            *signed += share;
            *size += share.abs();
        }
    }
    let mut shares: Vec<(&str, [f64; 2])> = shares.into_iter().collect();
    shares.sort_by(|a, b| b.1[1].total_cmp(&a.1[1]).then_with(|| a.0.cmp(b.0)));
    let name = |(name, [signed, size]): &(&str, [f64; 2])| {
        format!("{name} ±{:.1} % of the time (leans {:+.1})", 100.0 * size, 100.0 * signed)
    };
    let named: Vec<String> = shares.iter().take(NAMED).map(name).collect();
    (!named.is_empty()).then(|| named.join(", "))
}

fn worst(rows: &[Row]) -> Option<String> {
    let worst = rows.iter().max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()))?;
    Some(format!("worst {} ({:+.1} %)", worst.check, 100.0 * worst.error))
}
