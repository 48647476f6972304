//! What `cargo test` checks from outside: the loader, the engine, the commands, the screen and the source itself.

#![expect(clippy::unwrap_used, reason = "what cannot be opened, built or run should fail its test")]

mod roofline_systems;
mod support;

mod across_stack;
mod analysis;
mod calibration;
mod captured_graphs;
mod cli;
mod collectives;
mod contradictions;
mod folding;
mod grids;
mod impossible_figures;
mod limits;
mod loader_counts;
mod loader_golden;
mod loader_jobs;
mod loader_link;
mod loader_nsys;
mod loader_oracle;
mod loader_quirks;
mod loader_robustness;
mod loader_rocprof;
mod loader_untimed;
mod many_ranks;
mod memory;
mod one_price;
mod operator_edits;
mod papers_page;
mod parameterised;
mod pictures;
mod place_on;
mod placed_on_gpu;
mod process_groups;
mod published;
mod refusals;
mod replay;
mod reshard;
mod scenario;
mod scenario_captures;
mod scenario_effects;
mod scenario_invariants;
mod scenario_properties;
mod screen_claims;
mod screen_keys;
mod screen_samples;
mod screen_text;
mod screens;
mod sharding;
mod simulator;
mod stated_work;
mod terminal;
mod tidy;
mod tidy_circles;
