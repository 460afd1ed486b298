//! Enums whose values have names in files, flags and reports.

/// Declares such an enum: `Simple = "simple",` is a variant and its name.
macro_rules! named {
    ($(#[$about:meta])* pub enum $Enum:ident { $($(#[$doc:meta])* $Variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Enum { $($(#[$doc])* $Variant,)+ }

        impl $Enum {
            /// All of them.
            pub const ALL: &'static [$Enum] = &[$($Enum::$Variant,)+];

            /// The name in files, flags and reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($Enum::$Variant => $name,)+ }
            }

            /// The one of this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<$Enum> {
                $Enum::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}
