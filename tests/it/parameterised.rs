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
    let rows = "type,input,filters,kernel,stride\nconv,4x1x28x28,6,5,1\nnorm,,,,\nReLU,,,,\npool,,,2,2\navgpool,,,2,2\nfc,,50,,\nsigmoid,,,,\nsoftmax,,,,\n";
    std::fs::write(&table, rows).unwrap();
    let arguments = ["ops", table.to_str().unwrap(), "--level", "kernel", "--step", "place-on Carbonate"];
    let answer = run(&arguments, folder.path());
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["count"].as_u64().unwrap()).sum::<u64>(), 8, "{rows:?}");
    assert!(rows.iter().all(|row| row["device_ns"].as_i64() > Some(0)), "{rows:?}");
    assert!(rows.iter().all(|row| row["predicted_share"].as_f64() == Some(1.0)), "{rows:?}");
}

#[test]
fn collectives_in_three_regions_are_a_choice_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let (table, devices) = (folder.path().join("nccl.csv"), folder.path().join("retime/devices"));
    std::fs::create_dir_all(&devices).unwrap();
    let mut text = "system,op_name,num_gpus,bytes,latency_ms\n".to_owned();
    // A start, then a bandwidth that grows with the message until 60 GB/s on the bus.
    let us = |bytes: f64| (20.0 + bytes / 8e3 / (1.0 + bytes / 3e5)).max(1.75 * bytes / 60e3);
    for power in 8..31 {
        let bytes = 2f64.powi(power);
        writeln!(text, "mine,all_reduce,8,{bytes},{}", us(bytes) / 1e3).unwrap();
    }
    std::fs::write(&table, &text).unwrap();
    let calibrate = |name: &str, model: &str, table: &Path| {
        let out = devices.join(format!("{name}.toml"));
        let [table, out] = [table, &out].map(|path| path.to_str().unwrap().to_owned());
        let words = ["calibrate", &table, "-o", &out, "--model", model, "--device", name, "--inherits", "A100-80"];
        run(&words, folder.path())
    };
    let answer = calibrate("Regions", "three-region", &table);
    let row = &answer["rows"][0];
    assert_eq!((row["model"].as_str(), row["domain"].as_str()), (Some("collective-sigmoid"), Some("all-reduce x8")));
    let errors = row["held_out"]["mape"].as_f64().unwrap();
    assert!(errors > 1e-4 && errors < 0.15, "{errors}");
    let written = std::fs::read_to_string(devices.join("Regions.toml")).unwrap();
    assert!(written.contains("midpoint") && written.contains("steepness"), "{written}");
    assert_eq!(calibrate("Points", "fitted", &table)["rows"][0]["model"], "collective-curve");
    // Without collectives there is nothing to fit.
    let products = folder.path().join("products.csv");
    std::fs::write(&products, "m,n,k,seconds\n32,50,784,0.1\n").unwrap();
    let mut command = Command::cargo_bin("retime").unwrap();
    let out = devices.join("None.toml");
    let words = ["calibrate", products.to_str().unwrap(), "-o", out.to_str().unwrap(), "--model", "three-region"];
    let done = command.env("XDG_CONFIG_HOME", folder.path()).args(words).args(["--device", "N", "--inherits", "V100"]);
    let said = String::from_utf8(done.assert().failure().get_output().stderr.clone()).unwrap();
    assert!(said.contains("takes tables of collectives"), "{said}");
}
