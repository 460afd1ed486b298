//! Descriptions of the fields of servers, once, beside their adapters. The reader of files, the JSON Schema and the
//! tables of docs/backends.md use them.

use gswarm_core::input::document::NumberRange;
use serde_json::Value;

/// What a field may hold.
#[derive(Clone, Copy)]
pub enum Shape {
    /// A number.
    Number(NumberRange),
    /// A whole number.
    Whole(NumberRange),
    /// Text.
    Text,
    /// Text that is not empty.
    Name,
    /// An address that begins with `http://` or `https://`.
    Address,
    /// A list of texts.
    Texts,
    /// Texts by name.
    TextMap,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A mapping with fields of its own.
    Fields(&'static [Field]),
    /// A GPU, or a range of GPUs.
    Gpus,
    /// The models of a server.
    Models,
}

/// A field of a server.
#[derive(Clone, Copy)]
pub struct Field {
    /// As files spell it.
    pub name: &'static str,
    /// What it may hold.
    pub shape: Shape,
    /// Where it cannot be left out: what to write.
    pub required: Option<&'static str>,
    /// For people, in Markdown.
    pub help: &'static str,
}

/// Settings that are described field by field.
pub trait Described {
    /// Their fields, in order.
    const FIELDS: &'static [Field];

    /// What is used for fields that are left out, by name.
    fn defaults() -> Value;
}

/// A struct of settings and the description of its fields. Of each field: its help, type, default and [`Shape`], and, where it
/// cannot be left out, a hint what to write.
macro_rules! described {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $help:literal])+
                pub $field:ident: $type:ty = $default:expr, $shape:expr $(, required: $hint:expr)?;
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[doc = $help])+ pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* }
            }
        }

        impl $crate::backend::field::Described for $name {
            const FIELDS: &'static [$crate::backend::field::Field] = &[$(
                $crate::backend::field::Field {
                    name: stringify!($field),
                    shape: $shape,
                    required: { let _hint: Option<&'static str> = None; $(let _hint = Some($hint);)? _hint },
                    help: concat!($($help,)+),
                },
            )*];

            fn defaults() -> serde_json::Value {
                serde_json::json!($name::default())
            }
        }
    };
}
pub(crate) use described;
