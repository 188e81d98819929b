// The mark: a pitched roof with one sand panel, two posts, a lagoon cursor waiting inside.
export function Mark() {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d="M12 2 1.5 11h7zM12 2l10.5 9h-7zM3.5 12.5h2.6V22H3.5zM17.9 12.5h2.6V22h-2.6z" fill="currentColor" />
      <path d="M12 2 8.5 11h7z" fill="var(--sand)" />
      <path d="M9.2 19.5h5.6V22H9.2z" fill="var(--accent)" />
    </svg>
  );
}
