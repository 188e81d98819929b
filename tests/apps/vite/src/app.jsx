import { useState } from "react";

export function App() {
  const [count, setCount] = useState(0);
  return (
    <main>
      <h1>Vite says hello</h1>
      <button type="button" onClick={() => setCount(count + 1)}>
        Counted {count}
      </button>
    </main>
  );
}
