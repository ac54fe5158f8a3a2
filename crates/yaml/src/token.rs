use std::borrow::Cow;

/// What a document is made of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    End,
    /// `%TAG`: a handle and what it stands for.
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
        /// Without quotes and no block.
        plain: bool,
    },
}

/// Says what was found in the place of something else.
pub(super) fn unexpected(token: &Token<'_>, wanted: &str) -> String {
    let found = match token {
        Token::End => "the end of the document",
        Token::TagDirective(..) | Token::VersionDirective => "a `%` line",
        Token::DocumentStart => "`---`",
        Token::DocumentEnd => "`...`",
        Token::BlockSequence | Token::BlockEntry => "`- `",
        Token::BlockMapping | Token::Key => "a key",
        Token::BlockEnd => "the end of a block, by its indentation",
        Token::FlowSequence => "`[`",
        Token::FlowSequenceEnd => "`]`",
        Token::FlowMapping => "`{`",
        Token::FlowMappingEnd => "`}`",
        Token::FlowEntry => "`,`",
        Token::Value => "`:`",
        Token::Alias(_) => "an alias",
        Token::Anchor(_) => "an anchor",
        Token::Tag(..) => "a tag",
        Token::Scalar { .. } => "a text",
    };
    format!("expected {wanted}, found {found}")
}
