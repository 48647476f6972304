//! [`Memo`]: a bounded memory of answers. Knows nothing of what the answers are.

use std::hash::{BuildHasher, Hash};
use std::sync::Mutex;

use hashbrown::{Equivalent, HashMap, HashTable};
use rustc_hash::FxBuildHasher;

/// Remembered answers; beyond that the memory is emptied and filled anew.
const LIMIT: usize = 1 << 20;

/// Answers by key; a key is looked up by what borrows from it, and stored only with its answer.
#[derive(Debug)]
pub(super) struct Memo<K, A>(Mutex<HashMap<K, A, FxBuildHasher>>);

impl<K, A> Default for Memo<K, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, A: Copy> Memo<K, A> {
    /// The answer for `key`, from memory or, the first time, from `work_out`; others may ask meanwhile.
    pub(super) fn answer<Q>(&self, key: &Q, work_out: impl FnOnce() -> A) -> A
    where
        Q: Hash + Equivalent<K>,
        K: for<'q> From<&'q Q>,
    {
        let known = self.0.lock().ok().and_then(|answers| answers.get(key).copied());
        known.unwrap_or_else(|| {
            let answer = work_out();
            self.insert(key, answer);
            answer
        })
    }

    /// Of `keys` those without an answer, each once.
    pub(super) fn unknown<Q: Hash + PartialEq + Equivalent<K>>(&self, keys: impl Iterator<Item = Q>) -> Vec<Q> {
        let Ok(answers) = self.0.lock() else { return Vec::new() };
        let mut unknown = Distinct::default();
        for key in keys.filter(|key| !answers.contains_key(key)) {
            unknown.place(key);
        }
        unknown.list
    }

    /// Remembers `answer`.
    pub(super) fn insert<Q>(&self, key: &Q, answer: A)
    where
        Q: Hash + Equivalent<K>,
        K: for<'q> From<&'q Q>,
    {
        let Ok(mut answers) = self.0.lock() else { return };
        if answers.len() >= LIMIT {
            answers.clear();
        }
        if !answers.contains_key(key) {
            answers.insert(K::from(key), answer);
        }
    }
}

/// Values without repetition, in the order they came.
#[derive(Debug)]
pub(super) struct Distinct<T> {
    pub(super) list: Vec<T>,
    places: HashTable<u32>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { list: Vec::new(), places: HashTable::new() }
    }
}

impl<T: Hash + PartialEq> Distinct<T> {
    /// The place of `value` in the list, to which it is added where it is new.
    pub(super) fn place(&mut self, value: T) -> usize {
        let list = &mut self.list;
        let hash = FxBuildHasher.hash_one(&value);
        if let Some(&at) = self.places.find(hash, |&at| list[at as usize] == value) {
            return at as usize;
        }
        let at = list.len();
        list.push(value);
        self.places.insert_unique(hash, at as u32, |&at| FxBuildHasher.hash_one(&list[at as usize]));
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything has the same hash: answers are told apart by the questions alone.
    #[derive(PartialEq, Eq)]
    struct Colliding(u8);

    impl Hash for Colliding {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            0_u8.hash(state);
        }
    }

    impl From<&Self> for Colliding {
        fn from(key: &Self) -> Self {
            Self(key.0)
        }
    }

    #[test]
    fn each_key_is_worked_out_once_and_has_its_own_answer() {
        let memo: Memo<Colliding, u8> = Memo::default();
        let mut asked = 0;
        for round in 0..3 {
            for value in 0..5 {
                let answer = memo.answer(&Colliding(value), || {
                    asked += 1;
                    value * 2
                });
                assert_eq!(answer, value * 2, "round {round}");
            }
        }
        assert_eq!(asked, 5);
    }
}
