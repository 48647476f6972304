//! Knobs that are the line of an edit with its last number left out: `resize-op family=gemm 4096->`.

use retime_core::scenario::{current, parse_step, short, transforms};

use super::{Sweep, sizes_around};

/// Whether a knob begins with the name of an edit.
pub(super) fn is_edit(knob: &str) -> bool {
    let name = knob.split_whitespace().next().unwrap_or_default();
    transforms().iter().any(|edit| edit.name == current(name))
}

/// The line of `knob` with `value` as its number, and which argument that is.
///
/// # Errors
/// No number completes the line.
pub(super) fn completed(knob: &str, value: f64) -> Result<(String, usize), String> {
    /// What may stand before a number that is left out.
    const LEADS: [&str; 3] = ["", " ", " x"];
    const ARGUMENTS: usize = 8;
    let mut wrong = String::new();
    for lead in LEADS {
        let line = format!("{}{lead}{}", knob.trim_end(), short(value));
        match parse_step(&line) {
            Ok(step) => {
                let is_it = |&at: &usize| step.number(at).is_some_and(|number| (number - value).abs() < 1e-9);
                if let Some(argument) = (0..ARGUMENTS).rev().find(is_it) {
                    return Ok((line, argument));
                }
            }
            Err(error) => wrong = format!("`{line}`: {error}"),
        }
    }
    if wrong.is_empty() {
        wrong = format!("`{knob}` takes no number at its end: a knob is the line of an edit but for that");
    }
    Err(wrong)
}

/// Values to try: sizes around the last number that the knob itself has, else factors.
///
/// # Errors
/// No number completes the line.
pub(super) fn values(knob: &str) -> Result<Vec<f64>, String> {
    let mut numbers =
        knob.rsplit(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok());
    match numbers.next().filter(|_| knob.trim_end().ends_with("->")) {
        Some(size) => Ok(sizes_around(size)
            .into_iter()
            .filter(|&near| near >= size as f64 / 4.0 && near <= 4.0 * size as f64)
            .collect()),
        None => completed(knob, 1.0).and_then(|_| Sweep::parse_values(super::FACTORS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_but_for_its_number_is_a_knob_over_sizes_around_the_one_it_names() {
        let sweep = Sweep::around("resize-op family=gemm 4096->", None).unwrap();
        assert_eq!(sweep.values, [1024.0, 2048.0, 4096.0, 8192.0, 16384.0]);
        assert_eq!(sweep.line(2048.0), "resize-op family=gemm 4096->2048");
        assert_eq!((sweep.unit(), sweep.shown(2048.0)), ("size", "2048".to_owned()));
        let sweep = Sweep::new("scale kind=kernel", vec![0.5, 2.0]).unwrap();
        assert_eq!((sweep.line(0.5), sweep.unit()), ("scale kind=kernel x0.5".to_owned(), "factor"));
        assert_eq!(Sweep::new("accumulate", vec![4.0]).unwrap().line(2.0), "accumulate 2");
    }

    #[test]
    fn an_edit_that_no_number_completes_is_no_knob() {
        assert!(Sweep::new("remove-sync", vec![2.0]).is_err());
        assert!(Sweep::new("place-on", vec![2.0]).is_err());
    }
}
