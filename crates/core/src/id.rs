//! Typed indexes: a task's number cannot be used where a GPU's is meant.

pub use crate::id_vec::IdVec;

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into a plain slice.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            fn from(index: usize) -> $name {
                debug_assert!(u32::try_from(index).is_ok());
                $name(index as u32)
            }
        }

        impl From<$name> for usize {
            fn from(id: $name) -> usize {
                id.0 as usize
            }
        }
    };
}

id_type!(
    /// A model of the configuration, in the order of the file.
    ModelId
);
id_type!(
    /// A workflow of the configuration, in the order of the file.
    WorkflowId
);
id_type!(
    /// A request, in the order of the file.
    RequestId
);
id_type!(
    /// A node of a request: the tasks of a request are numbered one after the other, in the order of its workflow's nodes.
    TaskId
);
id_type!(
    /// A GPU of the cluster, from 0.
    GpuId
);

/// Consecutive GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gpus {
    /// The lowest of them.
    pub first: GpuId,
    /// How many.
    pub count: u32,
}

impl Gpus {
    /// `count` GPUs from `first` on.
    #[must_use]
    pub fn new(first: u32, count: u32) -> Gpus {
        Gpus { first: GpuId(first), count }
    }

    /// The GPUs, in order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = GpuId> + ExactSizeIterator + Clone {
        (self.first.0..self.first.0 + self.count).map(GpuId)
    }

    /// Whether `gpu` is one of them.
    #[must_use]
    pub fn contains(self, gpu: GpuId) -> bool {
        gpu.0 >= self.first.0 && gpu.0 - self.first.0 < self.count
    }

    /// As indexes into a plain slice.
    #[must_use]
    pub fn range(self) -> std::ops::Range<usize> {
        self.first.index()..self.first.index() + self.count as usize
    }
}

impl std::fmt::Display for Gpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[")?;
        for (place, gpu) in self.iter().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{}", gpu.0)?;
        }
        f.write_str("]")
    }
}
