//! Settings: structs whose defaults, bounds and explanations stand in one place.

use std::ops::RangeInclusive;

/// What is known of a setting.
#[derive(Debug)]
pub struct Field {
    /// Its name in the file.
    pub name: &'static str,
    /// What it is for, as the documentation of the struct says it.
    pub about: &'static str,
    /// Between which numbers it lies.
    pub bounds: Option<RangeInclusive<u64>>,
    /// Whether no file has it: the program sets it itself.
    pub hidden: bool,
}

/// Settings whose names hold one of these are secrets.
const SECRETS: [&str; 4] = ["password", "secret", "token", "headers"];

impl Field {
    /// Whether its value is shown to nobody.
    pub fn is_secret(&self) -> bool {
        SECRETS.iter().any(|secret| self.name.contains(secret))
    }
}

/// Makes a struct of settings out of fields with a default and, for numbers, bounds:
///
/// ```ignore
/// settings! {
///     /// What the face allows.
///     pub struct Settings {
///         /// The most connections at once.
///         pub connections: usize = 4096, 1..=1_000_000;
///     }
/// }
/// ```
///
/// The struct is one table of the configuration file: keys it does not have are refused, those that are
/// not given have their default. `FIELDS` says the same to whoever prints or checks a file.
macro_rules! settings {
    (
        $(#[doc = $struct_about:literal])+
        pub struct $name:ident {
            $(
                $(#[doc = $about:literal])+
                $(#[serde($($serde:tt)+)])?
                pub $field:ident: $type:ty = $default:expr $(, $bounds:expr)?;
            )+
        }
    ) => {
        $(#[doc = $struct_about])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[doc = $about])+
                $(#[serde($($serde)+)])?
                pub $field: $type,
            )+
        }

        impl $name {
            /// What the settings are for.
            pub const ABOUT: &'static str = concat!($($struct_about),+);
            /// All of them, in the order in which they are printed.
            pub const FIELDS: &'static [$crate::config::Field] = &[
                $($crate::config::Field {
                    name: stringify!($field),
                    about: concat!($($about),+),
                    bounds: $crate::config::settings::bounds!($($bounds)?),
                    hidden: $crate::config::settings::hidden!($($($serde)+)?),
                },)+
            ];
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)+ }
            }
        }
    };
}

macro_rules! bounds {
    () => {
        None
    };
    ($bounds:expr) => {
        Some($bounds)
    };
}

macro_rules! hidden {
    (skip) => {
        true
    };
    ($($other:tt)*) => {
        false
    };
}

pub(crate) use {bounds, hidden, settings};
