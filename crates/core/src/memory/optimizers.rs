//! What the optimizers of a trace keep beside parameters, by their classes.

use std::collections::BTreeMap;

use crate::graph::Optimizer;
use crate::units::total;

/// Numbers that an optimizer of `PyTorch` keeps for each number of a parameter, by its class; SGD's depend on its momentum.
const STATES: [(&str, u64); 13] = [
    ("Adadelta", 2),
    ("Adagrad", 1),
    ("Adam", 2),
    ("AdamW", 2),
    ("Adamax", 2),
    ("ASGD", 1),
    ("Lamb", 2),
    ("NAdam", 2),
    ("RAdam", 2),
    ("RMSprop", 1),
    ("Rprop", 2),
    ("SparseAdam", 2),
    ("SGD", 0),
];

/// The class of the optimizer whose step `name` is.
pub(super) fn class(name: &str) -> Option<&str> {
    name.strip_prefix("Optimizer.step#")?.split('.').next()
}

/// Numbers that an optimizer of this class keeps for each number of a parameter; `None` where that is not known.
pub(super) fn known(class: &str) -> Option<u64> {
    STATES.iter().find(|(known, _)| *known == class).map(|&(_, states)| states)
}

/// The class of an optimizer beside others, of which alone it is not known what it keeps.
pub(super) fn unknown(optimizers: &[Optimizer]) -> Option<&str> {
    let classes = || optimizers.iter().filter_map(|it| class(&it.name));
    let is_known = |class: &&str| known(class).is_some();
    classes().find(|class| !is_known(class)).filter(|_| classes().any(|class| is_known(&class)))
}

/// What several optimizers keep in bytes, each of the tensors in its own lists, where they keep unlike numbers for each number, and but for
/// one of which that is not known; `None` where all keep as many, or where the lists of one are not known.
pub(super) fn state_by_lists(optimizers: &[Optimizer]) -> Option<u64> {
    let has_unknown = unknown(optimizers).is_some();
    let is_told = |it: &&Optimizer| !has_unknown || class(&it.name).is_some_and(|class| known(class).is_some());
    let optimizers: Vec<&Optimizer> = optimizers.iter().filter(is_told).collect();
    let states = |it: &&Optimizer| {
        let kept = known(class(&it.name)?)?;
        (!it.sizes.is_empty()).then(|| if kept == 0 { u64::from(it.decays) } else { kept })
    };
    let each: Vec<u64> = optimizers.iter().map(states).collect::<Option<_>>()?;
    let bytes =
        |sizes: &BTreeMap<u64, usize>| total(sizes.iter().map(|(&size, &count)| size.saturating_mul(count as u64)));
    let is_unlike = has_unknown || each.windows(2).any(|pair| pair[0] != pair[1]);
    // One that has several steps in the iteration keeps its state once.
    let mut distinct: Vec<(&Optimizer, u64)> = Vec::new();
    for (optimizer, states) in optimizers.into_iter().zip(each).filter(|_| is_unlike) {
        if !distinct.iter().any(|(known, _)| known.name == optimizer.name && known.sizes == optimizer.sizes) {
            distinct.push((optimizer, states));
        }
    }
    let of = |&(it, states): &(&Optimizer, u64)| bytes(&it.sizes).saturating_mul(states);
    is_unlike.then(|| total(distinct.iter().map(of)))
}
