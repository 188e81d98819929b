export const metadata = { title: "Next app", icons: { icon: "data:," } };

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  );
}
