//! [`Memo`]: a bounded memory of answers. Knows nothing of what is asked.

use std::hash::{BuildHasher, BuildHasherDefault, Hash};
use std::sync::Mutex;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

/// Remembered answers; beyond that the memory is emptied and filled anew.
const LIMIT: usize = 1 << 20;

/// What a memory keeps of a question.
pub(super) trait Question: Hash {
    /// The question as it is kept.
    type Kept: Hash;

    /// Whether this is the question that `kept` stands for.
    fn is(&self, kept: &Self::Kept) -> bool;

    /// What is kept of it; hashes as the question does.
    fn keep(&self) -> Self::Kept;
}

/// Answers by question.
#[derive(Debug)]
pub(super) struct Memo<K, A> {
    seen: Mutex<HashTable<(K, A)>>,
    hasher: BuildHasherDefault<FxHasher>,
}

impl<K, A> Default for Memo<K, A> {
    fn default() -> Self {
        Self { seen: Mutex::default(), hasher: BuildHasherDefault::new() }
    }
}

impl<K: Hash, A: Copy> Memo<K, A> {
    /// The answer to `question`, from memory or, the first time, from `work_out`; others may ask meanwhile.
    pub(super) fn answer<Q: Question<Kept = K>>(&self, question: &Q, work_out: impl FnOnce() -> A) -> A {
        let hash = self.hasher.hash_one(question);
        let known = self.seen.lock().ok().and_then(|seen| seen.find(hash, |(kept, _)| question.is(kept)).map(|e| e.1));
        known.unwrap_or_else(|| {
            let answer = work_out();
            self.keep(hash, question, answer);
            answer
        })
    }

    /// Of `questions` those that are not remembered, each once.
    pub(super) fn unknown<Q: Question<Kept = K> + PartialEq>(&self, questions: impl Iterator<Item = Q>) -> Vec<Q> {
        let Ok(seen) = self.seen.lock() else { return Vec::new() };
        let mut unknown = Distinct::default();
        for question in questions {
            let hash = self.hasher.hash_one(&question);
            if seen.find(hash, |(kept, _)| question.is(kept)).is_none() {
                unknown.place(question);
            }
        }
        unknown.list
    }

    /// Remembers `answer`.
    pub(super) fn learn<Q: Question<Kept = K>>(&self, question: &Q, answer: A) {
        self.keep(self.hasher.hash_one(question), question, answer);
    }

    fn keep<Q: Question<Kept = K>>(&self, hash: u64, question: &Q, answer: A) {
        let Ok(mut seen) = self.seen.lock() else { return };
        if seen.len() >= LIMIT {
            seen.clear();
        }
        let rehash = |(kept, _): &(K, A)| self.hasher.hash_one(kept);
        seen.entry(hash, |(kept, _)| question.is(kept), rehash).or_insert_with(|| (question.keep(), answer));
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
        let hasher = BuildHasherDefault::<FxHasher>::new();
        let list = &mut self.list;
        let hash = hasher.hash_one(&value);
        if let Some(&at) = self.places.find(hash, |&at| list[at as usize] == value) {
            return at as usize;
        }
        let at = list.len();
        list.push(value);
        self.places.insert_unique(hash, at as u32, |&at| hasher.hash_one(&list[at as usize]));
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything has the same hash: answers are told apart by the questions alone.
    struct Colliding(u8);

    impl Hash for Colliding {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            0_u8.hash(state);
        }
    }

    impl Question for Colliding {
        type Kept = Self;

        fn is(&self, kept: &Self) -> bool {
            self.0 == kept.0
        }

        fn keep(&self) -> Self {
            Self(self.0)
        }
    }

    #[test]
    fn each_question_is_worked_out_once_and_has_its_own_answer() {
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
