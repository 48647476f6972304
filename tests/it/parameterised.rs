//! The parameterised roofline [Cardwell 2019 ch. 3], from the command that a user types: `place-on`, and `calibrate --model parameterised`.

use std::fmt::Write as _;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn run(arguments: &[&str], config: &Path) -> Value {
    let mut command = Command::cargo_bin("retime").unwrap();
    let done = command.env("XDG_CONFIG_HOME", config).args(arguments).arg("--json").assert().success();
    serde_json::from_slice(&done.get_output().stdout).unwrap()
}

/// Times in µs of the layers of the network of Table 3.1 at `batch`, by their operators.
fn network(batch: u32, device: &str, folder: &Path) -> [f64; 4] {
    let mut times = Vec::new();
    let layers = [("fc", 784, "50"), ("relu", 50, ""), ("fc", 50, "10"), ("sigmoid", 10, "")];
    for (kind, width, filters) in layers {
        let row = format!("{kind},{batch}x{width},{filters}");
        let table = folder.join("layer.csv");
        std::fs::write(&table, format!("type,input,filters\n{row}\n")).unwrap();
        let step = format!("place-on {device}");
        let answer = run(&["simulate", table.to_str().unwrap(), "--step", &step], folder);
        times.push(answer["simulated_ns"].as_f64().unwrap() / 1e3);
    }
    times.try_into().unwrap()
}

#[test]
fn fully_connected_layers_take_what_the_thesis_predicts_from_its_own_tables() {
    let folder = tempfile::tempdir().unwrap();
    // Tables 3.6 and 3.7, predicted, in µs.
    for (device, batch, [fc1, fc2]) in [
        ("Carbonate", 32, [143.0, 5.0]),
        ("Carbonate", 64, [157.0, 10.0]),
        ("Carbonate", 128, [207.0, 27.0]),
        ("Bridges", 32, [102.0, 3.0]),
        ("Bridges", 64, [169.0, 5.0]),
        ("Bridges", 128, [326.0, 10.0]),
    ] {
        let [first, relu, second, sigmoid] = network(batch, device, folder.path());
        assert!((first - fc1).abs() < 1e-3 && (second - fc2).abs() < 1e-3, "{device} {batch}: {first} {second}");
        // An activation reads and writes each of its elements once; STREAM of §3.6, in bytes per µs.
        let memory = if device == "Carbonate" { 12_937.6 } else { 11_442.7 };
        for (got, width) in [(relu, 50), (sigmoid, 10)] {
            assert!((got - f64::from(batch * width * 8) / memory).abs() < 1e-3, "{device} {batch}: {got}");
        }
    }
}

#[test]
fn products_of_ones_own_make_a_device_that_gives_their_times_back() {
    let folder = tempfile::tempdir().unwrap();
    let (table, devices) = (folder.path().join("products.csv"), folder.path().join("retime/devices"));
    std::fs::create_dir_all(&devices).unwrap();
    let mut text = "m,n,k,seconds\n".to_owned();
    for (m, seconds) in [(32, 0.000_1), (64, 0.000_15), (128, 0.000_4)] {
        writeln!(text, "{m},50,784,{seconds}").unwrap();
        writeln!(text, "{m},10,50,{}", seconds / 50.0).unwrap();
    }
    std::fs::write(&table, text).unwrap();
    let out = devices.join("mine.toml");
    let arguments = |model: &'static str| {
        let [table, out] = [&table, &out].map(|path| path.to_str().unwrap());
        ["calibrate", table, "-o", out, "--model", model, "--device", "Mine", "--inherits", "Carbonate"]
    };
    let answer = run(&arguments("parameterised"), folder.path());
    assert_eq!(answer["rows"][0]["n_train"], 6);
    let error = answer["rows"][0]["held_out"]["mape"].as_f64().unwrap();
    assert!(error > 0.05 && error < 1.5, "each row from the others: {error}");
    let [first, _, second, _] = network(64, "Mine", folder.path());
    assert!((first - 150.0).abs() < 1e-3 && (second - 3.0).abs() < 1e-3, "{first} {second}");
    // A batch between two rows lies between their rates.
    let [between, ..] = network(96, "Mine", folder.path());
    assert!((150.0..400.0).contains(&between), "{between}");
}

#[test]
fn layers_of_every_type_of_the_thesis_have_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("all.csv");
    let rows = "type,input,filters,kernel,stride\nconv,4x1x28x28,6,5,1\nnorm,,,,\nrelu,,,,\nmaxpool,,,2,2\navgpool,,,2,2\nfc,,50,,\nsigmoid,,,,\nsoftmax,,,,\n";
    std::fs::write(&table, rows).unwrap();
    let arguments = ["ops", table.to_str().unwrap(), "--level", "kernel", "--step", "place-on Carbonate"];
    let answer = run(&arguments, folder.path());
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["count"].as_u64().unwrap()).sum::<u64>(), 8, "{rows:?}");
    assert!(rows.iter().all(|row| row["device_ns"].as_i64() > Some(0)), "{rows:?}");
    assert!(rows.iter().all(|row| row["predicted_share"].as_f64() == Some(1.0)), "{rows:?}");
}
