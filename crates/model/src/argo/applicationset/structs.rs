//! The structs of generators and their providers, with the fields that they share.

/// Declares structs that may share fields: `..NAME,` stands for the field `NAME` that is defined here. Each
/// struct also preserves unknown fields.
///
/// The shared fields aren't in a flattened struct, because an error in a flattened field doesn't name the
/// field.
macro_rules! generator_structs {
    ($($(#[$attribute:meta])* pub struct $name:ident { $($fields:tt)* })*) => {$(
        generator_structs! { @fields [$(#[$attribute])* pub struct $name] [] $($fields)* }
    )*};
    (@fields [$($header:tt)*] [$($fields:tt)*]) => {
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        $($header)* {
            $($fields)*
            /// Unknown fields, preserved unchanged.
            #[serde(flatten)]
            pub rest: UnknownFields,
        }
    };
    (@fields $header:tt [$($fields:tt)*] $(#[$attribute:meta])* pub $name:ident: $type:ty, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)* $(#[$attribute])* pub $name: $type,] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..api, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// URL of the API.
            #[serde(default, skip_serializing_if = "String::is_empty")]
            pub api: String,
        ] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..token_ref, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// Reference to the Secret entry that contains the API token.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub token_ref: Option<SecretKey>,
        ] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..app_secret_name, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// Name of the repository Secret that contains the GitHub App credentials.
            #[serde(default, skip_serializing_if = "String::is_empty")]
            pub app_secret_name: String,
        ] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..basic_auth, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// Credentials for HTTP basic authentication to the API.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub basic_auth: Option<BasicAuth>,
        ] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..bearer_token, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// Bearer token for the API. Used instead of `basicAuth`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub bearer_token: Option<BearerToken>,
        ] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..insecure, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// True if the server's TLS certificate is not verified.
            #[serde(default, skip_serializing_if = "is_false")]
            pub insecure: bool,
        ] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..ca_ref, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// Reference to the ConfigMap entry that contains the trusted CA certificates.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub ca_ref: Option<ConfigMapKey>,
        ] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..labels, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// Labels that a pull request must have. All of them are required.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub labels: Vec<String>,
        ] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..all_branches, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// True if all branches are included instead of only the default branch.
            #[serde(default, skip_serializing_if = "is_false")]
            pub all_branches: bool,
        ] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..values, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// Additional parameters by name, available as `values.NAME` in templates.
            #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
            pub values: BTreeMap<String, String>,
        ] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..requeue_after_seconds, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// Polling interval in seconds.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub requeue_after_seconds: Option<i64>,
        ] $($more)* }
    };
    (@fields $header:tt [$($fields:tt)*] ..template, $($more:tt)*) => {
        generator_structs! { @fields $header [$($fields)*
            /// Fields that override those of `spec.template`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub template: Option<ApplicationSetTemplate>,
        ] $($more)* }
    };
}

pub(super) use generator_structs;
