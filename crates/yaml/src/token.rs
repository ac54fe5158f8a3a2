use std::borrow::Cow;

/// A token of a YAML document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    End,
    /// `%TAG`: a handle and its prefix.
    TagDirective(&'t str, String),
    /// `%YAML`.
    VersionDirective,
    DocumentStart,
    DocumentEnd,
    BlockSequence,
    BlockMapping,
    BlockEnd,
    FlowSequence,
    FlowSequenceEnd,
    FlowMapping,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'t str),
    Anchor(&'t str),
    /// Handle and suffix.
    Tag(&'t str, String),
    Scalar {
        text: Cow<'t, str>,
        /// True if the scalar is neither quoted nor a block scalar.
        plain: bool,
    },
}

/// Formats an error message for an unexpected token.
pub(super) fn unexpected(token: &Token<'_>, wanted: &str) -> String {
    let found = match token {
        Token::End => "the end of the document",
        Token::TagDirective(..) | Token::VersionDirective => "a directive",
        Token::DocumentStart => "`---`",
        Token::DocumentEnd => "`...`",
        Token::BlockSequence | Token::BlockEntry => "`- `",
        Token::BlockMapping | Token::Key => "a key",
        Token::BlockEnd => "the end of the block",
        Token::FlowSequence => "`[`",
        Token::FlowSequenceEnd => "`]`",
        Token::FlowMapping => "`{`",
        Token::FlowMappingEnd => "`}`",
        Token::FlowEntry => "`,`",
        Token::Value => "`:`",
        Token::Alias(_) => "an alias",
        Token::Anchor(_) => "an anchor",
        Token::Tag(..) => "a tag",
        Token::Scalar { .. } => "a string",
    };
    format!("expected {wanted}, found {found}")
}
