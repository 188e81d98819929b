//! Enums of machine-readable codes: a name in the code, a text on the wire, and a schema.

/// Makes an enum whose variants are texts on the wire.
macro_rules! code_enum {
    ($(#[$outer:meta])* $enum:ident, $schema:literal, { $($(#[doc = $doc:literal])* $name:ident => $text:literal,)* }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $enum {
            $($(#[doc = $doc])* #[serde(rename = $text)] $name,)*
        }

        impl $enum {
            /// Every code, in the order of this file.
            pub const ALL: &'static [$enum] = &[$($enum::$name),*];

            /// The code on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $($enum::$name => $text,)* }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        // By hand: the derive does not see a name that comes from a macro.
        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $enum {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::Type::String)
                    .description(Some($schema))
                    .enum_values(Some(Self::ALL.iter().map(|code| code.as_str())))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $enum {}
    };
}

pub(crate) use code_enum;
