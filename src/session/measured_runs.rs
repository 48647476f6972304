//! The user's own measured runs, for the communication roofline.

use retime_core::analysis::roofline::{FIGURES, Load, MeasuredRun};
use retime_fit::FitError;
use retime_fit::csv::Table;

/// The rows of a table of measured runs: name, the system they ran on where it has that column, and what they did.
///
/// # Errors
/// A column is missing, a cell is no number, or a run is faster than a machine may be said to be.
pub fn measured_runs(text: &str) -> Result<Vec<MeasuredRun>, FitError> {
    let table = Table::parse(text)?;
    table.require(&["name", "flop", "bytes", "seconds"])?;
    let rows = table.rows().map(|row| {
        let network_bytes = if row.text("network_bytes").is_empty() { 0.0 } else { row.number("network_bytes")? };
        let (flop, bytes, seconds) = (row.number("flop")?, row.number("bytes")?, row.positive("seconds")?);
        if [flop, bytes, network_bytes].iter().any(|amount| 1e-9 * amount / seconds > *FIGURES.end()) {
            return Err(row.bad("seconds"));
        }
        let system = Some(row.text("system").to_owned()).filter(|system| !system.is_empty());
        Ok(MeasuredRun {
            name: row.text("name").to_owned(),
            system,
            load: Load { flop, bytes, network_bytes, seconds },
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_faster_than_any_machine_is_refused() {
        let run = |seconds: &str| measured_runs(&format!("name,flop,bytes,seconds\na,1e12,1e9,{seconds}\n"));
        assert_eq!(run("1e-3").unwrap().len(), 1);
        assert!(run("1e-12").unwrap_err().to_string().contains("seconds"));
        let twice = measured_runs("name,flop,bytes,seconds,seconds\na,1e9,1e6,1e-3,5\n");
        assert!(twice.unwrap_err().to_string().contains("second column `seconds`"));
    }
}
