import { Counter } from "./counter";

export default function Page() {
  return (
    <main>
      <h1>Next says hello</h1>
      <Counter />
    </main>
  );
}
