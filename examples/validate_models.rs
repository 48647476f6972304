//! Prints the errors of the built-in cost models on tables of measurements:
//!
//! ```sh
//! cargo run --release --example validate_models -- FILE.csv[.gz]…
//! ```

use std::error::Error;
use std::io::Read;

use retime::cost::CostModels;
use retime::cost::validate::validate_models;
use retime::device::Catalog;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files = Vec::new();
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let mut text = String::new();
        if path.ends_with("gz") {
            flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
        } else {
            text = String::from_utf8(bytes)?;
        }
        files.push((path, text));
    }
    let table = validate_models(&CostModels::builtin()?, &Catalog::builtin()?, &files)
        .map_err(|(file, error)| format!("{file}: {error}"))?;
    println!(
        "{:<20} {:<20} {:>6} {:>12} {:>6} {:>12} {:>6} {:>6} {:>6} {:>6}",
        "family", "device", "n", "MAPE/GMAE", "n", "kernels", "bias", "struct", "curve", "roof"
    );
    for row in table {
        let percent = |value: f64| 100.0 * value;
        println!(
            "{:<20} {:<20} {:>6} {:>6.1}/{:>5.1} {:>6} {:>6.1}/{:>5.1} {:>+6.1} {:>6.1} {:>6.1} {:>6.1} {}",
            row.family,
            row.device,
            row.all.n,
            percent(row.all.mape),
            percent(row.all.gmae),
            row.kernels.n,
            percent(row.kernels.mape),
            percent(row.kernels.gmae),
            percent(row.kernels.bias),
            percent(row.structured.mape),
            percent(row.curve.mape),
            percent(row.roofline.mape),
            row.met.map_or("", |met| if met { "met" } else { "short" }),
        );
    }
    Ok(())
}
