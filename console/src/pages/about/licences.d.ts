declare module 'virtual:licences' {
  export interface Licence {
    name: string;
    version: string;
    /** As its package.json names it. */
    licence: string;
    author: string;
    /** Index of its licence file in `texts`; null where it has none. */
    text: number | null;
  }
  export const packages: Licence[];
  /** Each text once: many packages have the same. */
  export const texts: string[];
}
