//! A vector whose places are numbers of one kind: a task's place cannot be asked for with a GPU's number.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};

/// A vector that is indexed by `K`. It is no plain slice on purpose: then any number would do.
pub struct IdVec<K, V> {
    /// The values, by plain numbers.
    pub raw: Vec<V>,
    key: PhantomData<fn() -> K>,
}

impl<K, V> IdVec<K, V> {
    /// An empty one.
    #[must_use]
    pub const fn new() -> IdVec<K, V> {
        IdVec { raw: Vec::new(), key: PhantomData }
    }

    /// An empty one with room for so many values.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> IdVec<K, V> {
        Vec::with_capacity(capacity).into()
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The values, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, V> {
        self.raw.iter()
    }

    /// The values, in order, to be changed.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, V> {
        self.raw.iter_mut()
    }

    /// Adds a value at the end.
    pub fn push(&mut self, value: V) {
        self.raw.push(value);
    }

    /// Makes room for so many more values.
    pub fn reserve(&mut self, additional: usize) {
        self.raw.reserve(additional);
    }

    /// Makes it so long, with copies of `value` where there is none.
    pub fn resize(&mut self, length: usize, value: V)
    where
        V: Clone,
    {
        self.raw.resize(length, value);
    }
}

impl<K: From<usize>, V> IdVec<K, V> {
    /// The numbers of all values.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator + Clone + use<K, V> {
        (0..self.raw.len()).map(K::from)
    }

    /// The values with their numbers.
    pub fn iter_enumerated(&self) -> impl DoubleEndedIterator<Item = (K, &V)> + ExactSizeIterator + Clone {
        self.raw.iter().enumerate().map(|(at, value)| (K::from(at), value))
    }

    /// The values with their numbers, to be changed.
    pub fn iter_mut_enumerated(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = (K, &mut V)> + ExactSizeIterator {
        self.raw.iter_mut().enumerate().map(|(at, value)| (K::from(at), value))
    }

    /// The values with their numbers, for good.
    pub fn into_iter_enumerated(self) -> impl DoubleEndedIterator<Item = (K, V)> + ExactSizeIterator {
        self.raw.into_iter().enumerate().map(|(at, value)| (K::from(at), value))
    }

    /// The number of the first value.
    #[must_use]
    pub fn first_key(&self) -> Option<K> {
        (!self.raw.is_empty()).then(|| K::from(0))
    }

    /// The number of the last value.
    #[must_use]
    pub fn last_key(&self) -> Option<K> {
        self.raw.len().checked_sub(1).map(K::from)
    }

    /// The number that the next value will have.
    #[must_use]
    pub fn next_key(&self) -> K {
        K::from(self.raw.len())
    }

    /// Adds a value at the end, and says its number.
    pub fn push_and_get_key(&mut self, value: V) -> K {
        let key = self.next_key();
        self.raw.push(value);
        key
    }
}

impl<K: Into<usize>, V> IdVec<K, V> {
    /// The value of a number, where there is one.
    #[must_use]
    pub fn get(&self, key: K) -> Option<&V> {
        self.raw.get(key.into())
    }

    /// The value of a number, to be changed, where there is one.
    #[must_use]
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.raw.get_mut(key.into())
    }
}

impl<K: Into<usize>, V> Index<K> for IdVec<K, V> {
    type Output = V;

    fn index(&self, key: K) -> &V {
        &self.raw[key.into()]
    }
}

impl<K: Into<usize>, V> IndexMut<K> for IdVec<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        &mut self.raw[key.into()]
    }
}

impl<K: Into<usize>, V> Index<Range<K>> for IdVec<K, V> {
    type Output = [V];

    fn index(&self, keys: Range<K>) -> &[V] {
        &self.raw[keys.start.into()..keys.end.into()]
    }
}

impl<K, V> From<Vec<V>> for IdVec<K, V> {
    fn from(raw: Vec<V>) -> IdVec<K, V> {
        IdVec { raw, key: PhantomData }
    }
}

impl<K, V> From<IdVec<K, V>> for Vec<V> {
    fn from(values: IdVec<K, V>) -> Vec<V> {
        values.raw
    }
}

impl<K, V> FromIterator<V> for IdVec<K, V> {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> IdVec<K, V> {
        Vec::from_iter(values).into()
    }
}

impl<K, V> Extend<V> for IdVec<K, V> {
    fn extend<I: IntoIterator<Item = V>>(&mut self, values: I) {
        self.raw.extend(values);
    }
}

impl<K, V> IntoIterator for IdVec<K, V> {
    type Item = V;
    type IntoIter = std::vec::IntoIter<V>;

    fn into_iter(self) -> Self::IntoIter {
        self.raw.into_iter()
    }
}

impl<'v, K, V> IntoIterator for &'v IdVec<K, V> {
    type Item = &'v V;
    type IntoIter = std::slice::Iter<'v, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.raw.iter()
    }
}

impl<'v, K, V> IntoIterator for &'v mut IdVec<K, V> {
    type Item = &'v mut V;
    type IntoIter = std::slice::IterMut<'v, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.raw.iter_mut()
    }
}

impl<K, V> Default for IdVec<K, V> {
    fn default() -> IdVec<K, V> {
        IdVec::new()
    }
}

impl<K, V: Clone> Clone for IdVec<K, V> {
    fn clone(&self) -> IdVec<K, V> {
        self.raw.clone().into()
    }

    /// Uses the room that is there.
    fn clone_from(&mut self, other: &IdVec<K, V>) {
        self.raw.clone_from(&other.raw);
    }
}

impl<K, V: PartialEq> PartialEq for IdVec<K, V> {
    fn eq(&self, other: &IdVec<K, V>) -> bool {
        self.raw == other.raw
    }
}

impl<K, V: Eq> Eq for IdVec<K, V> {}

impl<K, V: std::hash::Hash> std::hash::Hash for IdVec<K, V> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}

impl<K, V: fmt::Debug> fmt::Debug for IdVec<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}
