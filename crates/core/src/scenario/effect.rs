//! What a step says of itself, one [`Effect`] for each thing that a reader of its figures has to know.

use serde::Serialize;

use crate::graph::NodeId;
use crate::units::DurNs;

/// What kind of thing a step says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectKind {
    /// The step changes nothing though it asks for something else than there is.
    NoEffect,
    /// Tasks that should have changed keep their time, or part of it.
    NotModelled,
    /// Neither the trace nor a model's known error covers it.
    Assumption,
    /// Anything else worth knowing.
    Note,
}

impl EffectKind {
    /// Its name, as in JSON and in scripts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoEffect => "no-effect",
            Self::NotModelled => "not-modelled",
            Self::Assumption => "assumption",
            Self::Note => "note",
        }
    }
}

/// One thing that a step says.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// What kind of thing.
    pub kind: EffectKind,
    /// In one line.
    pub text: String,
    /// Of what is not modelled: the time of work that is none of `tasks`.
    pub untraced: DurNs,
    /// Of an assumption: the share of what the step changes in the iteration that is assumed, where that can be told.
    pub assumed: Option<f32>,
    /// The traced tasks that it is about, each with as much of its time as no model covers.
    pub tasks: Vec<(NodeId, DurNs)>,
    /// Whether they keep that time; else they take another, by no model of what they compute.
    pub is_kept: bool,
}

impl Effect {
    fn of(kind: EffectKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), untraced: DurNs::ZERO, assumed: None, tasks: Vec::new(), is_kept: true }
    }

    /// The step changes nothing.
    pub fn none(why: impl Into<String>) -> Self {
        Self::of(EffectKind::NoEffect, why)
    }

    /// Something worth knowing.
    pub fn note(text: impl Into<String>) -> Self {
        Self::of(EffectKind::Note, text)
    }

    /// Something assumed, of which nobody knows how much it is.
    pub fn assumption(text: impl Into<String>) -> Self {
        Self::of(EffectKind::Assumption, text)
    }

    /// Something assumed: `share` of what the step changes in the iteration.
    pub fn assumed(text: impl Into<String>, share: f32) -> Self {
        Self { assumed: Some(share), ..Self::assumption(text) }
    }

    /// Traced tasks that are taken to keep their time.
    pub fn kept_by_assumption(text: impl Into<String>, tasks: Vec<(NodeId, DurNs)>) -> Self {
        Self { tasks, ..Self::assumption(text) }
    }

    /// Traced tasks that keep their time, or part of it, for want of a model.
    pub fn kept(text: impl Into<String>, tasks: Vec<(NodeId, DurNs)>) -> Self {
        Self { tasks, ..Self::of(EffectKind::NotModelled, text) }
    }

    /// Traced tasks that take another time, by no model of what they compute; each with its traced time.
    pub fn guessed(text: impl Into<String>, tasks: Vec<(NodeId, DurNs)>) -> Self {
        Self { is_kept: false, ..Self::kept(text, tasks) }
    }

    /// Work of that much time that no model covers and that is no traced task.
    pub fn not_modelled(text: impl Into<String>, untraced: DurNs) -> Self {
        Self { untraced, ..Self::of(EffectKind::NotModelled, text) }
    }
}
