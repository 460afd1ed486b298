//! Enumerations whose values have names in files and flags.

/// Declares an enumeration with the name of each value, the list of all, and the way back from a name.
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $Enum:ident {
            $($(#[$doc:meta])* $Value:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Enum {
            $($(#[$doc])* $Value,)+
        }

        impl $Enum {
            /// All of them, in the order in which they are shown.
            pub const ALL: [$Enum; [$($name),+].len()] = [$($Enum::$Value),+];

            /// As files, flags and reports spell it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($Enum::$Value => $name,)+ }
            }

            /// The one of this name.
            #[must_use]
            #[allow(dead_code, reason = "not every enumeration is read")]
            pub fn of_name(name: &str) -> Option<$Enum> {
                $Enum::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
}
