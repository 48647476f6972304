//! `roofline --system`: the communication roofline of machines without a trace, as Cardwell 2019 ch. 2 uses it.

use assert_cmd::Command;
use serde_json::Value;

fn roofline(arguments: &[&str]) -> Value {
    let mut command = Command::cargo_bin("retime").unwrap();
    let assert = command.args(["roofline", "--json"]).args(arguments).assert().success();
    serde_json::from_slice(&assert.get_output().stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn the_theses_systems_lie_over_one_another_and_a_made_up_one_has_its_three_figures() {
    let answer = roofline(&["--system", "Big-Red-II", "--system", "Karst", "--system", "mine=22,13.9,1.2"]);
    let systems = answer["systems"].as_array().unwrap();
    // Table 2.3: GFLOPS, memory and network GB/s.
    for (system, [peak, memory, network]) in
        systems.iter().zip([[14.7, 13.4, 5.7], [22.0, 13.9, 1.2], [22.0, 13.9, 1.2]])
    {
        assert!((number(&system["ridge"]) - peak / memory).abs() < 1e-9, "{system}");
        assert!((number(&system["network_ridge"]) - peak / network).abs() < 1e-9, "{system}");
    }
    assert_eq!(systems[2]["system"], "mine");
}

#[test]
fn fourier_transforms_of_two_sizes_differ_and_a_series_doubles() {
    let size = |size: &str| {
        let answer = roofline(&["--system", "Karst", "--algorithm", "fft", "--size", size]);
        answer["systems"][0]["algorithms"].as_array().unwrap().clone()
    };
    let (small, large) = (size("1048576"), size("536870912"));
    // Table 2.4: 5·log₂N / (32·log₂P) of N = 2²⁰ and 2²⁹ on 128 processes.
    let intensity = |rows: &[Value]| number(&rows[0]["communication_intensity"]);
    assert!((intensity(&small) - 100.0 / 224.0).abs() < 1e-12);
    assert!((intensity(&large) - 145.0 / 224.0).abs() < 1e-12);
    assert_eq!(size("256..536870912").len(), 22);
    let all = roofline(&["--system", "Karst", "--algorithms"]);
    let rows = all["systems"][0]["algorithms"].as_array().unwrap();
    // Table 2.5: 9 sizes of SUMMA, 12 of DGEMV, 23 of DDOT, 22 of FFT, 10 of the stencil, 11 of MST, 8 of Dijkstra.
    assert_eq!(rows.len(), 9 + 12 + 23 + 22 + 10 + 11 + 8);
    assert!(rows.iter().all(|row| number(&row["attainable"]) <= number(&row["attainable_by_memory"])));
}

#[test]
fn own_points_are_held_to_both_rooflines_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let (points, drawing) = (folder.path().join("points.csv"), folder.path().join("drawing.svg"));
    // 1 FLOP/B and 1 FLOP per network byte: 13.9 GFLOP/s by memory, 1.2 with the network. It ran at 1.
    std::fs::write(&points, "name,flop,bytes,network_bytes,seconds\nrun,1e9,1e9,1e9,1\n").unwrap();
    let [points, drawing_path] = [&points, &drawing].map(|path| path.to_str().unwrap());
    let arguments = ["--system", "Karst", "--points", points, "--svg", drawing_path];
    let answer = roofline(&arguments);
    let errors = &answer["systems"][0]["errors"];
    assert!((number(&errors["by_memory"]) - 12.9).abs() < 1e-9, "{errors}");
    assert!((number(&errors["by_communication"]) - 0.2).abs() < 1e-9, "{errors}");
    assert!((number(&errors["nearer"]) - (1.0 - 0.2 / 12.9)).abs() < 1e-9, "{errors}");
    let picture = std::fs::read_to_string(&drawing).unwrap();
    assert_eq!(picture.matches("<title>run on Karst").count(), 2, "a point in each plot");
    let mut again = Command::cargo_bin("retime").unwrap();
    again.arg("roofline").args(arguments).assert().code(1);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for arguments in [
        &["--system", "1,2"][..],
        &["--system", "Karst", "trace.json"],
        &["--system", "Karst", "--algorithms", "--size", "0"],
        &["--system", "Karst", "--processes", "0"],
        &["--points", "a.csv"],
    ] {
        Command::cargo_bin("retime").unwrap().arg("roofline").args(arguments).assert().code(2);
    }
    Command::cargo_bin("retime").unwrap().args(["roofline", "--system", "nowhere"]).assert().code(1);
}
