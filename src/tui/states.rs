//! What views remember of a trace, each in a type of its own, so that a new view needs no field here.

use std::any::{Any, TypeId};

use rustc_hash::FxHashMap;

/// A value of each type that was ever asked for.
#[derive(Debug, Default)]
pub struct States(FxHashMap<TypeId, Box<dyn Any>>);

impl States {
    /// The value of that type, if there is one yet.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Changes the value of that type, which is its default before the first time.
    pub fn with<T: Any + Default, R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut value = self.0.remove(&TypeId::of::<T>()).and_then(|value| value.downcast().ok()).unwrap_or_default();
        let result = change(&mut value);
        self.0.insert(TypeId::of::<T>(), value);
        result
    }

    /// Puts a value in place of the one of its type.
    pub fn set<T: Any>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(value));
    }
}
