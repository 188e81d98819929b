//! Whether use costs money, and what changes a wallet.

use crate::code_enum::code_enum;

code_enum! {
    /// Whether use costs money.
    BillingMode, "Whether use costs money: `off`, or `postpaid` (what teams owe is written down).", {
        Off => "off",
        Postpaid => "postpaid",
    }
}

code_enum! {
    /// What changed a wallet.
    EntryKind, "What changed a wallet.", {
        /// What was used.
        Usage => "usage",
        /// Money that came in.
        TopUp => "top_up",
        /// An amount that an admin of the server took back.
        Correction => "correction",
    }
}

impl EntryKind {
    /// The kind of a text in the store.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }
}
